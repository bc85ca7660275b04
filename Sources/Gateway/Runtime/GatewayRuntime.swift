// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import Logging
import NetworkAddresses
import Synchronization
package import TunnelIO
package import TunnelServer
package import WireGuardCore
package import WireGuardDevice

/// Why a gateway's tunnel cannot run.
package enum GatewayRuntimeError: Error, Hashable, Sendable, CustomStringConvertible {
    case network(TunnelServerError)
    case tunnel(WireGuardDeviceError)
    case service(GatewayError)
    /// The interface was removed, or something failed for good.
    case ended(WireGuardDevice.CloseReason)
    /// It was started before, or has been stopped.
    case notStarted

    package var description: String {
        switch self {
        case .network(let error): error.description
        case .tunnel(let error): error.description
        case .service(let error): error.description
        case .ended(let reason): "the tunnel has ended: \(reason)"
        case .notStarted: "the tunnel was started before, or has been stopped"
        }
    }
}

/// Runs a gateway's WireGuard, and keeps peers, firewall and routes as the store has them.
///
/// It follows the store's changes: a device comes, goes or gets other rules without a moment's interruption for others. What WireGuard
/// counts is told to the store now and then, and at the end. Where something could not be done, all is compared until it is.
package actor GatewayRuntime {
    package struct Options: Sendable {
        package var device = WireGuardDevice.Options()
        /// How often it is looked at what time has brought: devices that expire, keys that are to be switched.
        package var sweepInterval: Duration = .seconds(1)
        /// How often the store is told what was counted.
        package var flushInterval: Duration = .seconds(30)
        /// Called when changes of the store have come into force, with how long that took from the moment that they were heard of.
        package var onApplied: @Sendable (Duration) -> Void = { _ in }

        package init() {}
    }

    private let service: any PeerSource
    private let settings: GatewaySettings
    private let network: any PeerNetwork
    private let datagrams: any DatagramNetwork
    private let options: Options
    private let clock: GatewayClock
    private let logger: Logger

    private var device: WireGuardDevice?
    private var isStopped = false
    private var peers = RuntimePeers()
    private var traffic = TrafficLedger()
    private var sequence: Int64 = 0
    /// Whether something could not be done, so that all is to be compared.
    private var isStale = true
    private nonisolated let shown = Mutex(Shown())

    /// What others see without waiting.
    private struct Shown {
        var device: WireGuardDevice?
        var sequence: Int64 = 0
        var isCurrent = false
    }

    package init(
        service: any PeerSource, network: any PeerNetwork, datagrams: any DatagramNetwork = SystemDatagramNetwork(),
        options: Options = Options(), clock: GatewayClock = .system, logger: Logger
    ) {
        self.service = service
        settings = service.settings
        self.network = network
        self.datagrams = datagrams
        self.options = options
        self.clock = clock
        self.logger = logger
    }

    // MARK: - Life

    /// Brings up network and WireGuard with all peers. When it returns, devices can connect.
    package func start() async throws(GatewayRuntimeError) {
        guard device == nil, !isStopped else { throw .notStarted }
        let tun: any TunDevice
        do throws(TunnelServerError) { tun = try await network.start().device } catch { throw .network(error) }
        var options = options.device
        let logger = logger
        options.log = { level, text in logger.log(level: level == .error ? .error : .debug, "WireGuard: \(text)") }
        do throws(WireGuardDeviceError) {
            let device = try WireGuardDevice(tun: tun, network: datagrams, options: options)
            self.device = device
            var update = UAPIDeviceUpdate()
            update.listenPort = settings.wireGuardPort
            try device.apply(update)
        } catch {
            if device == nil { tun.close() }
            await stop()
            throw .tunnel(error)
        }
        do throws(GatewayError) { try await follow() } catch {
            await stop()
            throw .service(error)
        }
        do throws(WireGuardDeviceError) { try device?.start() } catch {
            await stop()
            throw .tunnel(error)
        }
        let (device, sequence) = (device, sequence)
        shown.withLock { $0 = Shown(device: device, sequence: sequence, isCurrent: true) }
    }

    /// What wakes it.
    private enum Event: Sendable {
        case changes, second, flush
        case closed(WireGuardDevice.CloseReason)
    }

    /// Follows the store until the task is cancelled, which is no error, or the tunnel ends. Then everything is undone.
    package func run() async throws(GatewayRuntimeError) {
        guard let device else { throw .notStarted }
        let (events, events_) = AsyncStream.makeStream(of: Event.self)
        device.onClose { events_.yield(.closed($0)) }
        let (service, options) = (service, options)
        let sources = [
            Task {
                for await _ in service.changeSignals() { events_.yield(.changes) }
            },
            Task {
                while (try? await Task.sleep(for: options.sweepInterval)) != nil { events_.yield(.second) }
            },
            Task {
                while (try? await Task.sleep(for: options.flushInterval)) != nil { events_.yield(.flush) }
            },
        ]
        var end: WireGuardDevice.CloseReason?
        await withTaskCancellationHandler {
            for await event in events {
                switch event {
                case .changes: await followAndTell()
                case .second: await look()
                case .flush: await flush()
                case .closed(let reason): end = reason
                }
                if end != nil { break }
            }
        } onCancel: {
            events_.finish()
        }
        for source in sources { source.cancel() }
        // A task of its own: this one may be cancelled, and then the store would not hear of what was counted.
        await Task { await stop() }.value
        if let end, end != .requested { throw .ended(end) }
    }

    /// Tells the store what was counted, and undoes everything. Safe to repeat.
    package func stop() async {
        guard !isStopped else { return }
        isStopped = true
        await flush()
        device?.close()
        await network.stop()
        shown.withLock { $0 = Shown() }
    }

    // MARK: - Following

    private func followAndTell() async {
        let began = ContinuousClock.now
        do throws(GatewayError) {
            if try await follow() { options.onApplied(ContinuousClock.now - began) }
        } catch {
            isStale = true
            logger.error("the store's changes cannot be followed, and are tried again: \(error)")
        }
        let (sequence, isStale) = (sequence, isStale)
        shown.withLock { ($0.sequence, $0.isCurrent) = (sequence, !isStale) }
    }

    /// Brings into force what is different.
    /// - Returns: whether anything was.
    @discardableResult
    private func follow() async throws(GatewayError) -> Bool {
        let wasStale = isStale
        let changes =
            wasStale
            ? try await service.peers(.gateway) : try await service.peerChanges(after: sequence, .gateway)
        if changes.serverKeysChanged || changes.isComplete || wasStale {
            let key = service.serverKeys.current
            try applying { (device) throws(WireGuardDeviceError) in try device.setPrivateKey(key) }
        }
        let work = peers.take(changes)
        sequence = changes.sequence
        isStale = false
        guard !work.isEmpty else { return changes.serverKeysChanged }
        do throws(GatewayError) {
            try await apply(work)
        } catch {
            peers.forget(work)
            throw error
        }
        return true
    }

    /// Whoever goes, goes from WireGuard first; whoever comes, comes there last: no packet is ever judged by nobody's rules.
    private func apply(_ work: RuntimePeers.Work) async throws(GatewayError) {
        if let device {
            for (id, key) in work.leavingKeys {
                if let peer = device.peer(key) { traffic.take(TrafficLedger.Count(peer), of: key, id, at: clock.now()) }
                traffic.forget(key)
            }
        }
        try applying { (device) throws(WireGuardDeviceError) in try device.apply(work.removal) }
        var refused: [IPPrefix: TunnelServerError] = [:]
        if !work.network.isEmpty {
            do throws(TunnelServerError) { refused = try await network.apply(work.network) } catch {
                throw .unavailable("\(error)")
            }
            for error in refused.values { logger.error("\(error)") }
        }
        for update in work.additions(without: Set(refused.keys)) {
            try applying { (device) throws(WireGuardDeviceError) in try device.apply(update) }
        }
    }

    private func applying(
        _ body: (WireGuardDevice) throws(WireGuardDeviceError) -> Void
    ) throws(GatewayError) {
        guard let device else { return }
        do throws(WireGuardDeviceError) { try body(device) } catch { throw .unavailable("\(error)") }
    }

    // MARK: - What time brings

    private func look() async {
        do throws(GatewayError) { try await service.sweep(.gateway) } catch {
            logger.error("what time has brought cannot be noted: \(error)")
        }
        if isStale { await followAndTell() }
    }

    /// Tells the store what was counted since the last time.
    private func flush() async {
        guard let device else { return }
        let (devices, now) = (peers.devices, clock.now())
        for peer in device.peers {
            if let id = devices[peer.publicKey] {
                traffic.take(TrafficLedger.Count(peer), of: peer.publicKey, id, at: now)
            }
        }
        let activity = traffic.drain()
        guard !activity.isEmpty else { return }
        do throws(GatewayError) { try await service.record(activity, .gateway) } catch {
            traffic.putBack(activity)
            logger.error("what was counted is told later: \(error)")
        }
    }

    // MARK: - What there is to see

    /// How a session ends that is not renewed, in seconds (WireGuard, section 6.1).
    private static let sessionLifetime: Int64 = 180

    /// What others may see. Any thread may ask.
    package nonisolated var figures: RuntimeFigures {
        let shown = shown.withLock { $0 }
        var figures = RuntimeFigures()
        figures.network = network.condition
        figures.sequence = shown.sequence
        figures.isCurrent = shown.isCurrent
        guard let device = shown.device else { return figures }
        let now = Int64(clock.now().timeIntervalSince1970)
        for peer in device.peers {
            figures.peers += 1
            figures.received &+= peer.receivedBytes
            figures.sent &+= peer.sentBytes
            if let last = peer.lastHandshake, now - last.seconds < Self.sessionLifetime { figures.online += 1 }
        }
        let statistics = device.statistics
        figures.handshakes = statistics.engine.handshakesCompleted
        figures.drops = statistics.drops
        figures.port = device.listenPort
        return figures
    }

    /// What is known of peers now, by their keys: handshakes, endpoints, bytes.
    package nonisolated var livePeers: [PublicKey: PeerSnapshot] {
        let device = shown.withLock { $0.device }
        return Dictionary((device?.peers ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    }
}
