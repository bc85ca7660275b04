// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel
import Synchronization
import TunnelIO
import TunnelSystem

/// Reads the host's network path, outside one tunnel, from the kernel.
struct LinuxPathReader {
    let netlink: RouteSocket
    /// The tunnel's interface, which does not count as a network.
    let tunnel: String
    /// The folder in which the kernel describes interfaces.
    var interfaceFolder = "/sys/class/net"

    /// A network path, and the facts that it depends on.
    struct Reading: Hashable {
        var path: NetworkPath
        /// The gateways and the host's own addresses. A change of them changes the path, even on the same interface.
        var details: Set<String>
    }

    /// The maximum number of networks to report if there is no default route.
    private static let mostNetworks = 256
    private static let mostNetworksRead = 65_536

    /// Returns the network path without name servers, which the kernel does not know.
    func read() throws(LinuxNetworkError) -> Reading {
        let links = try netlink.links().filter { $0.isUp && !$0.isLoopback && $0.name != tunnel }
        var ways: [(metric: UInt32, isIPv6: Bool, link: RouteSocket.Link)] = []
        var details: Set<String> = []
        var ends: Set<IPAddress> = []
        var attached: [(network: IPPrefix, link: RouteSocket.Link)] = []
        for isIPv6 in [false, true] {
            for route in try netlink.routes(isIPv6: isIPv6) {
                guard let key = route.key, key.table == Route.mainTable, route.type == 1 else { continue }
                // A route over several interfaces names none of them, so use any that is up.
                guard let link = links.first(where: { $0.index == route.interface || route.interface == 0 }) else {
                    continue
                }
                guard key.destination.length == 0 else {
                    if attached.count < Self.mostNetworksRead, !key.destination.address.isLinkLocal {
                        attached.append((key.destination, link))
                    }
                    continue
                }
                ways.append((key.metric, isIPv6, link))
                details.insert("\(link.name) \(isIPv6) \(route.gateway?.description ?? "-")")
                if let gateway = route.gateway { ends.insert(gateway) }
            }
        }
        guard !ways.isEmpty else { return try withoutDefault(attached) }
        ways.sort { ($0.metric, $0.isIPv6 ? 1 : 0) < ($1.metric, $1.isIPv6 ? 1 : 0) }
        var interfaces: [NetworkPath.Interface] = []
        for way in ways where !interfaces.contains(where: { $0.index == way.link.index }) {
            interfaces.append(
                NetworkPath.Interface(name: way.link.name, kind: kind(of: way.link), index: way.link.index))
            for address in try netlink.addresses(index: way.link.index) where !address.address.isLinkLocal {
                details.insert("\(way.link.name) \(address)")
                ends.insert(address.address)
            }
        }
        let families = Set(ways.map(\.isIPv6))
        let withoutDefault = attached.filter { !families.contains($0.network.isIPv6) }
        let path = NetworkPath(
            status: .satisfied, interfaces: interfaces, supportsIPv4: ways.contains { !$0.isIPv6 },
            supportsIPv6: ways.contains { $0.isIPv6 },
            isExpensive: interfaces.first?.kind == .cellular,
            attachedNetworks: Self.foremost(withoutDefault).reduce(into: []) { networks, place in
                if networks.last != place.network { networks.append(place.network) }
            },
            endsOfWay: ends.sorted { $0.description < $1.description })
        return Reading(path: path, details: details)
    }

    /// The first ``mostNetworks`` networks, sorted by prefix length.
    private static func foremost(
        _ attached: [(network: IPPrefix, link: RouteSocket.Link)]
    ) -> ArraySlice<(network: IPPrefix, link: RouteSocket.Link)> {
        attached.sorted {
            ($0.network.length, $0.network.description) < ($1.network.length, $1.network.description)
        }
        .prefix(mostNetworks)
    }

    /// Returns the path of a host without a default route.
    private func withoutDefault(
        _ attached: [(network: IPPrefix, link: RouteSocket.Link)]
    ) throws(LinuxNetworkError) -> Reading {
        var (path, ends): (NetworkPath, Set<IPAddress>) = (.unsatisfied, [])
        for (network, link) in Self.foremost(attached) {
            if path.attachedNetworks.last != network { path.attachedNetworks.append(network) }
            if network.isIPv6 { path.supportsIPv6 = true } else { path.supportsIPv4 = true }
            guard !path.interfaces.contains(where: { $0.index == link.index }) else { continue }
            path.interfaces.append(NetworkPath.Interface(name: link.name, kind: kind(of: link), index: link.index))
            for address in try netlink.addresses(index: link.index) where !address.address.isLinkLocal {
                ends.insert(address.address)
            }
        }
        path.endsOfWay = ends.sorted { $0.description < $1.description }
        return Reading(path: path, details: [])
    }

    /// Returns the kind of an interface. Wireless drivers set `DEVTYPE` in uevent; any other interface with Ethernet
    /// addresses is wired.
    private func kind(of link: RouteSocket.Link) -> NetworkPath.InterfaceKind {
        let text = (try? SmallFile.text("\(interfaceFolder)/\(link.name)/uevent")) ?? nil
        let type = text?.split(separator: "\n").first { $0.hasPrefix("DEVTYPE=") }?.dropFirst(8)
        return switch type {
        case "wlan": .wifi
        case "wwan": .cellular
        case nil where link.hardware == 1: .ethernet
        default: .other
        }
    }
}

/// Detects that the machine slept by comparing two clocks, one of which stops during sleep.
struct SleepDetector {
    /// The times of the clock that includes sleep and of the one that does not, in nanoseconds.
    struct Clocks: Hashable {
        var boot: Int64
        var awake: Int64

        /// Now.
        static var now: Clocks {
            var time = timespec()
            unsafe clock_gettime(CLOCK_MONOTONIC, &time)
            return Clocks(
                boot: LaneClock.now(), awake: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        }
    }

    private var last: Clocks
    /// The shortest sleep that is detected, in nanoseconds. The time between the two readings hides shorter sleep.
    private static let least: Int64 = 1_000_000_000

    init(_ now: Clocks = .now) {
        last = now
    }

    /// Whether the machine slept since the last call.
    mutating func slept(_ now: Clocks = .now) -> Bool {
        defer { last = now }
        return (now.boot &- last.boot) &- (now.awake &- last.awake) >= Self.least
    }
}

/// A descriptor that is readable after the wall clock was set, by a program or by the kernel after sleep.
final class ClockChanges: Sendable {
    let descriptor: OwnedDescriptor

    /// - Returns: `nil` if the system refuses the descriptor.
    init?() {
        let number = ctunnel_clock_changes()
        guard number >= 0 else { return nil }
        descriptor = OwnedDescriptor(number)
    }

    /// Makes the descriptor unreadable until the next change.
    func clear() {
        var expirations: UInt64 = 0
        _ = unsafe withUnsafeMutableBytes(of: &expirations) { unsafe SystemCall.read(descriptor.number, into: $0) }
    }
}

/// Reports changes of the host's network path and the machine's sleep, on the thread of a loop.
final class LinuxPathMonitor: Sendable {
    private let loop: EventLoop
    private let shared: OnLoop

    /// The state that only the loop's thread uses after the start.
    private final class OnLoop: @unchecked Sendable {
        let reader: LinuxPathReader
        let routes: RouteMonitor?
        var reading: LinuxPathReader.Reading
        var sleep = SleepDetector()
        /// Reports changes of the wall clock; `nil` if the system has no descriptor for it.
        let clockChanges = ClockChanges()
        var registrations: [EventLoop.Registration] = []
        var timer: EventLoop.Timer?
        /// The time of the last reading, whether another one is due, and the timer of the next one.
        var last = Int64.min / 2
        var isDue = false
        var nextReading: EventLoop.Timer?

        init(reader: LinuxPathReader, routes: RouteMonitor?, reading: LinuxPathReader.Reading) {
            self.reader = reader
            self.routes = routes
            self.reading = reading
        }
    }

    /// The network path when the monitor was created.
    let path: NetworkPath

    /// The interval between comparisons of the clocks without ``ClockChanges``, in nanoseconds.
    private static let interval: Int64 = 10_000_000_000
    /// The delay from a change to the reading, and the minimum time between two readings, both in nanoseconds. A tunnel
    /// to many networks adds thousands of routes.
    private static let settling: Int64 = 20_000_000
    private static let readingInterval: Int64 = 250_000_000

    /// A monitor of the calling thread's network namespace.
    init(tunnel: String, loop: EventLoop) throws(LinuxNetworkError) {
        let reader = LinuxPathReader(netlink: try RouteSocket(), tunnel: tunnel)
        let reading = try reader.read()
        do throws(TunnelIOError) {
            shared = OnLoop(reader: reader, routes: try RouteMonitor.make(), reading: reading)
        } catch {
            throw LinuxNetworkError(.netlink(operation: "follow changes of the network"), errno: error.errno)
        }
        path = reading.path
        self.loop = loop
    }

    /// Begins to report.
    func start(
        changed: @escaping @Sendable (NetworkPath) -> Void, woke: @escaping @Sendable () -> Void
    ) throws(LinuxNetworkError) {
        let shared = shared
        let nextReading = loop.makeTimer {
            (shared.last, shared.isDue) = (LaneClock.now(), false)
            guard let reading = try? shared.reader.read(), reading != shared.reading else { return }
            shared.reading = reading
            changed(reading.path)
        }
        shared.nextReading = nextReading
        if let routes = shared.routes {
            do throws(TunnelIOError) {
                let registration = try loop.register(routes.readiness) { [weak loop] _ in
                    guard routes.drain(), !shared.isDue else { return }
                    shared.isDue = true
                    loop?.set(
                        nextReading,
                        deadline: max(LaneClock.now() + Self.settling, shared.last + Self.readingInterval))
                }
                shared.registrations.append(registration)
            } catch {
                throw LinuxNetworkError(.netlink(operation: "follow changes of the network"), errno: error.errno)
            }
        }
        watchSleep(woke)
    }

    /// Compares the clocks when the wall clock has changed, as it does after sleep. A timer would wake an idle machine.
    private func watchSleep(_ woke: @escaping @Sendable () -> Void) {
        let (shared, loop) = (shared, loop)
        if let changes = shared.clockChanges,
            let registration = try? loop.register(
                changes.descriptor.number,
                handler: { _ in
                    changes.clear()
                    if shared.sleep.slept() { woke() }
                })
        {
            shared.registrations.append(registration)
            return
        }
        let timer = loop.makeTimer { [weak loop] in
            if shared.sleep.slept() { woke() }
            if let timer = shared.timer { loop?.set(timer, deadline: LaneClock.now() + Self.interval) }
        }
        shared.timer = timer
        loop.set(timer, deadline: LaneClock.now() + Self.interval)
    }

    /// Stops all reports.
    func stop() {
        for registration in shared.registrations { loop.unregister(registration) }
        for timer in [shared.timer, shared.nextReading].compactMap({ $0 }) { loop.remove(timer) }
    }
}
