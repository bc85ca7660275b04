// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

/// A day of a phone with a tunnel, in simulated time: the seed determines the events, and the invariants are checked after
/// each event.
///
/// The provider, its host and the WireGuard engines at both ends are real. The clock, the sockets, the networks between them,
/// the name servers and the phone's user are simulated.
final class PhoneDay: @unchecked Sendable {
    static let inner = IPAddress.v4(10, 0, 0, 2)

    let seed: UInt64
    /// The length of the day.
    let length: Duration
    let world: SimulatedWorld
    let resolver: SimulatedResolver
    let host: MemoryHost<WireGuardTunnelProvider>
    var configuration: WireGuardTunnelConfiguration
    let policy: LeakPolicy
    var random: SeededGenerator
    var figures = Figures()
    private(set) var log: [String] = []
    private let keepsLog: Bool

    // MARK: The script

    var agenda: [(time: Duration, number: Int, happening: Happening)] = []
    private var nextNumber = 0
    /// The number of network changes that the provider does not know of yet.
    var pendingAnnouncements = 0
    var pendingReconfigurations = 0

    // MARK: The phone

    var isAwake = true
    var awakeSince: Duration = .zero
    /// Whether the user wants the tunnel up.
    var wantsTunnel = false
    var isStarting = false
    var hasRetry = false
    var stopsBegun: [Int: Duration] = [:]
    var nextStop = 0
    /// Whether the policy must hold: from the start, or from the first settings, to the user's stop.
    var mustHold = false
    var lastStatus = TunnelStatus.disconnected
    var lastSigns: UInt64 = 0
    var lastLife: Duration = .zero
    weak var lastPlane: SimulatedPlane?
    /// The time since which everything outside the tunnel works; `nil` while it does not.
    var goodSince: Duration? = .zero

    // MARK: Packets

    var nextPacket: UInt32 = 0
    var expectedAtServer: [UInt32: [UInt8]] = [:]
    var expectedEcho: [UInt32: [UInt8]] = [:]
    var probeBurst: (since: Duration, first: UInt32, echoed: Bool)?

    init(seed: UInt64, length: Duration = .seconds(86_400), keepsLog: Bool = false) {
        self.seed = seed
        self.length = length
        self.keepsLog = keepsLog
        var random = SeededGenerator(seed: seed &* 0x9e37_79b9 &+ 3)
        world = SimulatedWorld(seed: seed, inner: [IPPrefix(host: Self.inner)])
        resolver = SimulatedResolver(world: world, seed: seed)
        policy = LeakPolicy.allCases[random.int(in: 0...2)]
        world.serverHasIPv6 = random.chance(0.5)
        world.networks = Self.makeNetworks(&random)
        world.attached = 0
        let isNamed = random.chance(0.85)
        let server = isNamed ? SimulatedWorld.serverName : "198.51.100.1"
        configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: Self.inner)],
            peers: [
                .init(
                    publicKey: world.serverKey.publicKey, allowedIPs: [.allIPv4, .allIPv6],
                    endpoint: "\(server):\(SimulatedWorld.port)", persistentKeepalive: random.chance(0.5) ? 25 : 0)
            ],
            connectivity: ConnectivityOptions(pingAddress: random.chance(0.7) ? "10.0.0.1" : nil))
        let secret = world.phoneKey.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        var environment = WireGuardEnvironment()
        environment.resolver = resolver
        let (world, used) = (world, environment)
        host = MemoryHost(
            path: world.networks[0].path, secrets: MemorySecrets(["private-key": secret]), clock: world.clock
        ) {
            WireGuardTunnelProvider(environment: used) { tun, update, _, _ throws(TunnelError) in
                try SimulatedPlane(tun, update, world: world)
            }
        }
        self.random = random
        world.onProblem = { [unowned self] in problem($0) }
        world.onArrival = { [unowned self] in arrived($0) }
    }

    private static func makeNetworks(_ random: inout SeededGenerator) -> [SimulatedNetwork] {
        var networks = [
            SimulatedNetwork(
                name: "home", kind: .wifi, publicV4: IPAddress.v4(0xcb00_7101),
                publicV6: IPAddress.v6(0x2001_0db8_0001_0000, 1)),
            SimulatedNetwork(
                name: "mobile", kind: .cellular, publicV4: IPAddress.v4(0xcb00_7102),
                publicV6: IPAddress.v6(0x2001_0db8_0002_0000, 2)),
            SimulatedNetwork(
                name: "office", kind: .wifi, publicV4: IPAddress.v4(0xcb00_7103),
                publicV6: IPAddress.v6(0x2001_0db8_0003_0000, 3)),
            SimulatedNetwork(
                name: "hotel", kind: .wifi, publicV4: IPAddress.v4(0xcb00_7104),
                publicV6: IPAddress.v6(0x2001_0db8_0004_0000, 4)),
        ]
        networks[0].hasIPv6 = random.chance(0.5)
        networks[2].hasIPv6 = random.chance(0.5)
        if random.chance(0.6) {
            // IPv6 only, as mobile networks are.
            networks[1].hasIPv4 = false
            networks[1].hasIPv6 = true
            networks[1].nat64 =
                random.chance(0.5) ? NAT64Prefix.standard : NAT64Prefix(value: 0x2001_0db8_0064 << 80, length: 96)
            networks[1].hasDNS64 = random.chance(0.7)
        }
        for index in networks.indices { networks[index].natTimeout = .seconds(random.int(in: 25...300)) }
        networks[3].isCaptive = true
        return networks
    }

    /// Simulates the day.
    func run() -> Figures {
        let loop = JobLoop()
        loop.run {
            plan()
            while step(loop), figures.problems.isEmpty {}
            finish(loop)
        }
        figures.days = 1
        figures.jobs = loop.count
        figures.datagrams = world.datagrams
        return figures
    }

    // MARK: - Time

    func schedule(_ happening: Happening, at time: Duration) {
        let entry = (time: time, number: nextNumber, happening: happening)
        nextNumber += 1
        let index = agenda.firstIndex { $0.time > time } ?? agenda.count
        agenda.insert(entry, at: index)
    }

    func schedule(_ happening: Happening, in delay: Duration) { schedule(happening, at: world.now + delay) }

    private func settle(_ loop: JobLoop) {
        repeat {
            if !loop.runUntilIdle() { return problem("tasks without end") }
            deliver()
            check()
        } while !loop.isIdle
    }

    /// Advances to the next event.
    private func step(_ loop: JobLoop) -> Bool {
        settle(loop)
        var next = min(agenda.first?.time ?? length, length)
        if let time = world.nextEvent { next = min(next, time) }
        if isAwake {
            if let time = world.nextPhoneEvent { next = min(next, time) }
            if let time = world.clock.nextDeadline?.offset { next = min(next, time) }
        }
        guard next < length else { return false }
        pass(to: next)
        world.carryOut(isAwake: isAwake)
        while let first = agenda.first, first.time <= world.now {
            agenda.removeFirst()
            if isAwake || first.happening.needsNoPhone {
                happen(first.happening)
            } else if first.happening.isKept {
                schedule(first.happening, at: nextWake + .seconds(1))
            }
            settle(loop)
        }
        return true
    }

    var nextWake: Duration { agenda.first { $0.happening == .wake }?.time ?? length }

    private func pass(to time: Duration) {
        guard time > world.now else { return }
        if isAwake { figures.awake += time - world.now }
        world.now = time
        if isAwake, time > world.clock.now.offset { world.clock.advance(by: time - world.clock.now.offset) }
    }

    /// Ends the tunnel at the end of the day, in any state.
    private func finish(_ loop: JobLoop) {
        guard figures.problems.isEmpty else { return }
        agenda = []
        if !isAwake { happen(.wake) }
        agenda = []
        stop()
        let end = world.now + .seconds(60)
        while !stopsBegun.isEmpty, world.now < end {
            settle(loop)
            guard !stopsBegun.isEmpty, let time = world.clock.nextDeadline?.offset else { break }
            pass(to: time)
        }
        if !stopsBegun.isEmpty { problem("the last stop does not end") }
        if host.status.status != .disconnected { problem("after the stop it is \(host.status.status)") }
        if host.platform.settings != nil || host.platform.guardPolicy != nil { problem("something stays in force") }
        if world.plane.map({ !$0.isClosed }) ?? false { problem("WireGuard still runs") }
    }

    // MARK: - The log

    func note(_ text: () -> String) {
        guard keepsLog else { return }
        let milliseconds = world.now.wholeNanoseconds / 1_000_000
        let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000)
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        log.append(
            "\(two(seconds / 3_600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)).\(rest) "
                + (isAwake ? "" : "(asleep) ") + text())
    }

    func problem(_ text: String) {
        note { "PROBLEM \(text)" }
        if figures.problems.count < 3 { figures.problems.append("seed \(seed): \(text)") }
    }
}
