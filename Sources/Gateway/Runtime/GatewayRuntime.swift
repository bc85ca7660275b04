// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
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
    /// The login tunnel cannot run, or has failed.
    case login(TunnelIOError)
    case service(GatewayError)
    /// The interface was removed, or something failed for good.
    case ended(WireGuardDevice.CloseReason)
    /// It was started before, or has been stopped.
    case notStarted

    package var description: String {
        switch self {
        case .network(let error): error.description
        case .tunnel(let error): error.description
        case .login(let error): "the login tunnel: \(error)"
        case .service(let error): error.description
        case .ended(let reason): "the tunnel has ended: \(reason)"
        case .notStarted: "the tunnel was started before, or has been stopped"
        }
    }
}

/// Runs a gateway's WireGuard, and the login tunnel beside it, and keeps peers, firewall and routes as the store has them.
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

    private let loginKeys: LoginTunnelKeys?
    private nonisolated let (events, arrivals) = AsyncStream.makeStream(of: Event.self)

    private var device: WireGuardDevice?
    private var login: CredentialServerDevice?
    private var isStopped = false
    private var peers: RuntimePeers
    private var logins = RuntimeLogins<ClientID>()
    /// The families that the network has in force; true for IPv6.
    private var families: Set<Bool> = []
    /// The last that follows the store: one after the other.
    private var following: Task<Void, Never>?
    private var traffic = TrafficLedger()
    private var sequence: Int64 = 0
    /// Whether something could not be done, so that all is to be compared.
    private var isStale = true
    private nonisolated let shown = Mutex(Shown())

    /// What others see without waiting.
    private struct Shown {
        var device: WireGuardDevice?
        var login: CredentialServerDevice?
        var sequence: Int64 = 0
        var isCurrent = false
    }

    /// - Parameter loginKeys: nil for no login tunnel.
    package init(
        service: any PeerSource, network: any PeerNetwork, datagrams: any DatagramNetwork = SystemDatagramNetwork(),
        loginKeys: LoginTunnelKeys? = nil, options: Options = Options(), clock: GatewayClock = .system, logger: Logger
    ) {
        self.loginKeys = loginKeys
        peers = RuntimePeers(loginTunnel: loginKeys == nil ? nil : service.settings.loginTunnel.interface)
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
        let up: PeerNetworkDevices
        do throws(TunnelServerError) { up = try await network.start() } catch { throw .network(error) }
        let tun = up.device
        families = Set((up.addresses.isEmpty ? settings.addresses : up.addresses).map(\.isIPv6))
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
            up.login?.close()
            await stop()
            throw .tunnel(error)
        }
        if let loginKeys, let tun = up.login { login = makeLogin(loginKeys, tun) }
        do throws(GatewayError) { try await follow() } catch {
            await stop()
            throw .service(error)
        }
        do throws(WireGuardDeviceError) { try device?.start() } catch {
            await stop()
            throw .tunnel(error)
        }
        do throws(TunnelIOError) { try login?.start() } catch {
            await stop()
            throw .login(error)
        }
        let (device, login, sequence) = (device, login, sequence)
        shown.withLock { $0 = Shown(device: device, login: login, sequence: sequence, isCurrent: true) }
    }

    private func makeLogin(_ keys: LoginTunnelKeys, _ tun: any TunDevice) -> CredentialServerDevice {
        var options = CredentialServerDevice.Options()
        options.limits.clients = settings.devices
        options.layout = self.options.device.layout
        let arrivals = arrivals
        return CredentialServerDevice(
            privateKey: keys.privateKey, presharedKey: keys.presharedKey, store: LoginGate(self), tun: tun,
            network: datagrams, port: settings.loginTunnel.port, options: options
        ) { arrivals.yield(.loginFailed($0)) }
    }

    /// What wakes it.
    private enum Event: Sendable {
        case changes, second, flush
        case closed(WireGuardDevice.CloseReason)
        case loginFailed(TunnelIOError)
    }

    /// Follows the store until the task is cancelled, which is no error, or the tunnel ends. Then everything is undone.
    package func run() async throws(GatewayRuntimeError) {
        guard let device else { throw .notStarted }
        let arrivals = arrivals
        device.onClose { arrivals.yield(.closed($0)) }
        let (service, options) = (service, options)
        let sources = [
            Task {
                for await _ in service.changeSignals() { arrivals.yield(.changes) }
            },
            Task {
                while (try? await Task.sleep(for: options.sweepInterval)) != nil { arrivals.yield(.second) }
            },
            Task {
                while (try? await Task.sleep(for: options.flushInterval)) != nil { arrivals.yield(.flush) }
            },
        ]
        var end: GatewayRuntimeError?
        await withTaskCancellationHandler {
            for await event in events {
                switch event {
                case .changes: await followAndTell()
                case .second: await look()
                case .flush: await flush()
                case .closed(let reason): end = .ended(reason)
                case .loginFailed(let error): end = .login(error)
                }
                if end != nil { break }
            }
        } onCancel: {
            arrivals.finish()
        }
        for source in sources { source.cancel() }
        // A task of its own: this one may be cancelled, and then the store would not hear of what was counted.
        await Task { await stop() }.value
        if let end, end != .ended(.requested) { throw end }
    }

    /// Tells the store what was counted, and undoes everything. Safe to repeat.
    package func stop() async {
        guard !isStopped else { return }
        isStopped = true
        // Its last sessions say what they have moved.
        await login?.stop()
        await flush()
        device?.close()
        await network.stop()
        shown.withLock { $0 = Shown() }
    }

    // MARK: - Following

    /// Brings into force what is different, after those that do already.
    private func followAndTell() async {
        let before = following
        let task = Task {
            await before?.value
            await followOnce()
        }
        following = task
        await task.value
    }

    private func followOnce() async {
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
        endSessions()
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
                if let peer = device.peer(key) {
                    traffic.take(TrafficLedger.Count(peer), of: .key(key), id, at: clock.now())
                }
                traffic.forget(.key(key))
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
        do throws(GatewayError) { try await service.sweep(busy: logins.busy, .gateway) } catch {
            logger.error("what time has brought cannot be noted: \(error)")
        }
        if isStale { await followAndTell() }
        endSessions()
    }

    /// Tells the store what was counted since the last time.
    private func flush() async {
        guard let device else { return }
        let (devices, now) = (peers.devices, clock.now())
        for peer in device.peers {
            if let id = devices[peer.publicKey] {
                traffic.take(TrafficLedger.Count(peer), of: .key(peer.publicKey), id, at: now)
            }
        }
        for session in login?.sessions ?? [] {
            if let device = logins.sessions[session.id]?.device {
                traffic.take(
                    TrafficLedger.Count(session.moved, session.endpoint), of: .session(session.id), device, at: now,
                    isThere: true)
            }
        }
        let activity = traffic.drain()
        guard !activity.isEmpty else { return }
        do throws(GatewayError) { try await service.record(activity, .gateway) } catch {
            traffic.putBack(activity)
            logger.error("what was counted is told later: \(error)")
        }
    }

    // MARK: - The login tunnel

    /// What becomes of a login. Whoever is let in is known to firewall and routes before its client hears of it.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        let request = LoginRequest(
            login: attempt.login, password: attempt.password, source: attempt.source, busy: logins.busy)
        do throws(GatewayError) {
            switch try await service.logIn(request, .gateway) {
            case .refused(let refusal): return .refused(refusal.body)
            case .accepted(let device, let password, let addresses):
                // What became of user and device since the password was right counts.
                await followAndTell()
                let assignment = settings.assignment(addresses, families: families)
                guard !isStale, !isStopped, peers.peers[device]?.password == password, !assignment.addresses.isEmpty
                else { return .refused(Body.Refusal(.unavailable)) }
                for former in logins.begin(attempt.session, device, password) { login?.disconnect(former) }
                return .accepted(assignment)
            }
        } catch {
            logger.error("a login cannot be judged: \(error)")
            return .refused(Body.Refusal(.unavailable))
        }
    }

    /// Takes the end of a session.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) {
        guard let ended = logins.end(session) else { return }
        traffic.take(TrafficLedger.Count(moved, nil), of: .session(session), ended.device, at: clock.now())
        traffic.forget(.session(session))
        logger.info("a session of device \(ended.device) is over: \(reason)")
    }

    /// Ends sessions whose user, password or device says that they are over.
    private func endSessions() {
        // While the gateway is not sure of its clients, theirs are not over for good: they may log in again.
        let reason: EndReason = isStale ? .shutdown : .removed
        for session in logins.over({ peers.peers[$0]?.password }) { login?.disconnect(session, reason) }
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
        figures.login = shown.login.map { LoginFigures($0.statistics, port: $0.port) }
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
        (figures.waitingPackets, figures.waitingMessages) = device.queueDepths
        figures.port = device.listenPort
        return figures
    }

    /// What is known of peers now, by their keys: handshakes, endpoints, bytes.
    package nonisolated var livePeers: [PublicKey: PeerSnapshot] {
        let device = shown.withLock { $0.device }
        return Dictionary((device?.peers ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    }
}
