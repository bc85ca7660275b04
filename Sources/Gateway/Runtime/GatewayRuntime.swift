// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
package import Logging
import NetworkAddresses
import PacketTunnelLinux
import Synchronization
package import TunnelIO
package import TunnelServer
package import WireGuardCore
package import WireGuardDevice

/// The reason that a gateway's tunnel cannot run.
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

/// Runs a gateway's WireGuard tunnel, its login tunnel, or both, and makes peers, firewall and routes match the store.
///
/// It follows the changes in the store. Adding, removing or changing one device does not interrupt the others. It stores
/// WireGuard's counters at intervals and when it stops. The devices in the store are the desired state. A device counts as
/// applied only after it was applied; the runtime repeats a failed round from the desired state.
package actor GatewayRuntime {
    package struct Options: Sendable {
        package var device = WireGuardDevice.Options()
        /// The interval between checks for expired devices and for keys that are due to be switched.
        package var sweepInterval: Duration = .seconds(1)
        /// The interval between writes of the counters to the store.
        package var flushInterval: Duration = .seconds(30)
        /// The time to wait at the end for a store that does not answer.
        package var stopLimit: Duration = .seconds(6)
        /// Called after changes in the store took effect, with the time since the runtime received the signal.
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
    private let tickets: LoginTickets?
    private nonisolated let (events, arrivals) = AsyncStream.makeStream(of: Event.self)

    private var device: WireGuardDevice?
    private var login: CredentialServerDevice?
    /// Whether there are tunnels, before they have started.
    private var isMade = false
    private var isStopped = false
    private var peers: PeerReconciler
    private var logins = RuntimeLogins<ClientID>()
    /// The address families that the network has configured; true for IPv6.
    private var families: Set<Bool> = []
    /// The rounds that follow the store.
    private let following = SerialOperations()
    private var traffic = TrafficLedger()
    /// The writes to the store that run now. A store that does not answer delays no end of access.
    private var (sweeping, flushing): (Task<Void, Never>?, Task<Void, Never>?)
    /// The errors that were logged in the last minute.
    private var failures = OncePerMinute<String>(capacity: 16)
    /// The last change of the store that `peers` includes; `nil` before the first.
    private var sequence: Int64?
    /// The last change of the store that is applied.
    private var appliedSequence: Int64 = 0
    /// Whether WireGuard may have another private key than the store.
    private var isKeyPending = true
    /// The errors of the last round: of the store, of WireGuard and of the network.
    private var errors = RoundErrors()
    private var problems = NetworkProblems()
    private var exclusions = NetworkProblems()
    private nonisolated let shown = Mutex(Shown())

    private struct RoundErrors {
        var store: String?
        var engine: String?
        var network: String?
        var isEmpty: Bool { store == nil && engine == nil && network == nil }
    }

    /// The state that other threads read without waiting.
    private struct Shown {
        var device: WireGuardDevice?
        var login: CredentialServerDevice?
        var sequence: Int64 = 0
        var readiness = Readiness(isReady: false)
        var rounds = 0
        var failedRounds = 0
        /// The start of the round that runs now, by both clocks.
        var round: (nanoseconds: Int64, date: Date)?
    }

    /// - Parameters:
    ///   - loginKeys: `nil` for no login tunnel.
    ///   - tickets: `nil` for a login tunnel that verifies the password of every login.
    package init(
        service: any PeerSource, network: any PeerNetwork, datagrams: any DatagramNetwork = SystemDatagramNetwork(),
        loginKeys: LoginTunnelKeys? = nil, tickets: LoginTickets? = nil, options: Options = Options(),
        clock: GatewayClock = .system, logger: Logger
    ) {
        self.tickets = tickets
        self.loginKeys = loginKeys
        self.service = service
        settings = service.settings
        let (servesWireGuard, interface) = (settings.servesWireGuard, settings.loginTunnel.interface)
        peers = PeerReconciler(
            loginTunnel: loginKeys != nil && servesWireGuard ? interface : nil, servesWireGuard: servesWireGuard)
        self.network = network
        self.datagrams = datagrams
        self.options = options
        self.clock = clock
        self.logger = logger
    }

    // MARK: - Life

    /// Brings up network and WireGuard with all peers. When it returns, devices can connect.
    package func start() async throws(GatewayRuntimeError) {
        guard !isMade, !isStopped else { throw .notStarted }
        let up: PeerNetworkDevices
        do throws(TunnelServerError) { up = try await network.start() } catch { throw .network(error) }
        isMade = true
        families = Set((up.addresses.isEmpty ? settings.addresses : up.addresses).map(\.isIPv6))
        if settings.servesWireGuard {
            do throws(WireGuardDeviceError) { try makeDevice(up.device) } catch {
                if device == nil { up.device.close() }
                up.login?.close()
                await stop()
                throw .tunnel(error)
            }
        }
        if let loginKeys, let tun = settings.servesWireGuard ? up.login : up.device {
            login = makeLogin(loginKeys, tun)
        }
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
        let (device, login) = (device, login)
        shown.withLock { ($0.device, $0.login) = (device, login) }
        publish()
    }

    private func makeDevice(_ tun: any TunDevice) throws(WireGuardDeviceError) {
        var options = options.device
        let logger = logger
        options.log = { level, text in logger.log(level: level == .error ? .error : .debug, "WireGuard: \(text)") }
        let device = try WireGuardDevice(tun: tun, network: datagrams, options: options)
        self.device = device
        var update = UAPIDeviceUpdate()
        update.listenPort = settings.wireGuardPort
        try device.apply(update)
    }

    private func makeLogin(_ keys: LoginTunnelKeys, _ tun: any TunDevice) -> CredentialServerDevice {
        var options = CredentialServerDevice.Options()
        options.limits.clients = settings.devices
        options.limits.verifiers = ProcessorCount.forLanes()
        options.tickets = tickets?.sealer
        options.dataPath.layout = self.options.device.layout
        let arrivals = arrivals
        return CredentialServerDevice(
            privateKey: keys.privateKey, presharedKey: keys.presharedKey, store: LoginGate(self, service), tun: tun,
            network: datagrams, binding: DatagramBinding(port: settings.loginTunnel.port), options: options
        ) { arrivals.yield(.loginFailed($0)) }
    }

    /// An event that wakes the runtime.
    private enum Event: Sendable {
        case changes, second, flush
        case closed(WireGuardDevice.CloseReason)
        case loginFailed(TunnelIOError)
    }

    /// Follows the store until the task is cancelled, which is not an error, or the tunnel ends. Then undoes every change.
    package func run() async throws(GatewayRuntimeError) {
        guard isMade, !isStopped else { throw .notStarted }
        let arrivals = arrivals
        device?.onClose { arrivals.yield(.closed($0)) }
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
                case .changes: await applyChanges()
                case .second: await runSweep()
                case .flush: startFlush()
                case .closed(let reason): end = .ended(reason)
                case .loginFailed(let error): end = .login(error)
                }
                if end != nil { break }
            }
        } onCancel: {
            arrivals.finish()
        }
        for source in sources { source.cancel() }
        // A separate task: this one may be cancelled, and the counters would not be stored.
        await Task { await stop() }.value
        if let end, end != .ended(.requested) { throw end }
    }

    /// Stores the counters and undoes every change. You can call it more than once.
    package func stop() async {
        guard !isStopped else { return }
        isStopped = true
        let isAnswered = await isDone(within: options.stopLimit) { [self, login] in
            // It counts the traffic of the last sessions, and waits for the verdicts on logins, which need the database.
            await login?.stop()
            await finishWrites()
        }
        if !isAnswered {
            logger.error(
                "not saved: the last traffic counters; the database has not answered within \(options.stopLimit)")
        }
        device?.close()
        await network.stop()
        shown.withLock { $0 = Shown() }
    }

    private func finishWrites() async {
        await sweeping?.value
        await flushing?.value
        await flush()
        let unsaved = traffic.drain().count
        if unsaved > 0 { logger.error("not saved: the last traffic counters of \(unsaved) devices") }
    }

    // MARK: - Following

    /// Runs a round after the rounds that were requested before, and publishes its result.
    private func applyChanges() async {
        await following.run { [self] in
            let began = ContinuousClock.now
            let (nanoseconds, date) = (clock.nanoseconds(), clock.now())
            shown.withLock { $0.round = (nanoseconds, date) }
            let hasChanged = try? await follow()
            await publish { shown in
                shown.round = nil
                shown.rounds += 1
                if hasChanged == nil { shown.failedRounds += 1 }
            }
            if hasChanged == true { options.onApplied(ContinuousClock.now - began) }
        }
    }

    /// Runs a round: reads the changes of the store, and applies the differences between the desired and the applied state.
    ///
    /// If the store fails, the devices that were read before are still applied.
    /// - Returns: Whether there were differences.
    /// - Throws: `.unavailable` with the first failure. ``errors`` has the others.
    @discardableResult
    private func follow() async throws(GatewayError) -> Bool {
        errors = RoundErrors()
        var failure: GatewayError?
        let denials = service.denials
        var feed: Feed<Peer>?
        do throws(GatewayError) { feed = try await service.peers(after: sequence, .gateway) } catch {
            errors.store = Self.reason(error)
            failure = error
        }
        peers.update(with: feed, denials: denials, at: clock.now())
        if let feed {
            if feed.serverKeysChanged || feed.isComplete { isKeyPending = true }
            sequence = feed.sequence
        }
        endSessions()
        // Without any list of the devices, an empty one would end the connections of all of them.
        if sequence == nil, let failure { throw failure }
        let hasChanges = !peers.isCurrent || isKeyPending
        do throws(GatewayError) { try await applyPeers() } catch { failure = failure ?? error }
        if let failure { throw failure }
        appliedSequence = sequence ?? 0
        return hasChanges
    }

    /// Applies the desired peers. WireGuard loses peers first and gets peers last, so that each packet meets its device's rules.
    private func applyPeers() async throws(GatewayError) {
        guard isMade else { return }
        var failure: GatewayError?
        peers.withdraw()
        do throws(GatewayError) { try updateEngine() } catch { failure = error }
        // A failure of WireGuard does not keep the firewall from denying traffic.
        let refused = try await updateNetwork()
        peers.admit(without: refused)
        if let failure { throw failure }
        try updateEngine()
    }

    /// Applies the desired clients. Removals take effect before it waits. If a device gets the address of a former device, it waits for
    /// an attempt to end the former device's connections; later rounds and logins wait too.
    private func updateNetwork() async throws(GatewayError) -> [IPPrefix: TunnelServerError] {
        let update = peers.network.begin()
        var refused = peers.refused
        // The network tries excluded addresses again by itself.
        if !update.isEmpty || !refused.isEmpty || !network.condition.isCurrent || !peers.released.isEmpty {
            do throws(TunnelServerError) {
                refused = try await network.apply(
                    update.changes.mapValues { $0.map(peers.access) }, isComplete: update.isComplete,
                    released: peers.released)
            } catch {
                peers.network.invalidate()
                errors.network = "\(error)"
                throw .unavailable("\(error)")
            }
        }
        peers.network.finish(update)
        peers.recordReleased()
        return refused
    }

    /// Applies the gateway's key, and the desired peers. Without WireGuard, no peer is desired.
    private func updateEngine() throws(GatewayError) {
        guard let device else {
            isKeyPending = false
            return
        }
        let leaving = peers.leaving
        do throws(WireGuardDeviceError) {
            if isKeyPending { try device.setPrivateKey(service.serverKeys.current) }
            isKeyPending = false
            try peers.engine.update { (update) throws(WireGuardDeviceError) in
                try apply(update, to: device, leaving)
            }
        } catch {
            errors.engine = "\(error)"
            throw .unavailable("\(error)")
        }
        peers.recordLeft()
    }

    /// The number of peers in one update, so that none keeps packets waiting.
    private static let updateSize = 128

    /// - Parameter leaving: The devices of removed keys, whose traffic is counted a last time.
    /// - Returns: The peers that WireGuard has no memory for, each with the reason.
    private func apply(
        _ update: Reconciler<PublicKey, PeerReconciler.EnginePeer>.Update, to device: WireGuardDevice,
        _ leaving: [PublicKey: DeviceID]
    ) throws(WireGuardDeviceError) -> [PublicKey: String] {
        var removed = update.changes.keys.filter { update.changes[$0] == .some(nil) }
        if update.isComplete { removed += device.peers.map(\.publicKey).filter { update.changes[$0] == nil } }
        for key in removed {
            if let id = leaving[key], let peer = device.peer(key) {
                traffic.record(TrafficLedger.Count(peer), of: .key(key), id, at: clock.now())
            }
        }
        if !removed.isEmpty { try device.apply(UAPIDeviceUpdate(removing: removed)) }
        for key in removed { traffic.forget(.key(key)) }
        var refused: [PublicKey: String] = [:]
        var part: [UAPIPeerUpdate] = []
        for (key, peer) in update.changes {
            guard let peer else { continue }
            part.append(UAPIPeerUpdate(key, peer))
            guard part.count == Self.updateSize else { continue }
            try add(part, to: device, &refused)
            part.removeAll(keepingCapacity: true)
        }
        if !part.isEmpty { try add(part, to: device, &refused) }
        return refused
    }

    /// Adds peers, or changes them.
    /// - Parameter refused: Gets those that WireGuard has no memory for, each with the reason.
    private func add(
        _ part: [UAPIPeerUpdate], to device: WireGuardDevice, _ refused: inout [PublicKey: String]
    ) throws(WireGuardDeviceError) {
        do throws(WireGuardDeviceError) {
            try device.apply(UAPIDeviceUpdate(part))
        } catch {
            guard case .beyondBudget = error.code else { throw error }
            for peer in part { refused[peer.publicKey] = try problem(of: peer, in: device) }
        }
    }

    /// Adds a peer, or removes it if WireGuard has no memory for it.
    /// - Returns: The reason of the removal.
    private func problem(of peer: UAPIPeerUpdate, in device: WireGuardDevice) throws(WireGuardDeviceError) -> String? {
        do throws(WireGuardDeviceError) {
            try device.apply(UAPIDeviceUpdate([peer]))
            return nil
        } catch {
            guard case .beyondBudget = error.code else { throw error }
            try device.apply(UAPIDeviceUpdate(removing: [peer.publicKey]))
            return "\(error)"
        }
    }

    /// The reason of an error, which its text keeps from callers of the API.
    private static func reason(_ error: GatewayError) -> String {
        if case .unavailable(let reason) = error { reason } else { "\(error)" }
    }

    // MARK: - Readiness

    /// Whether all devices of the store are applied, except for excluded ones.
    private var isCurrent: Bool { sequence != nil && errors.isEmpty && peers.isCurrent && !isKeyPending }

    /// Publishes the result of the last round, and logs its problems once.
    private func publish(_ change: (inout Shown) -> Void = { _ in }) {
        let found: [(part: String, what: String)] = [
            ("the store's changes", errors.store), ("WireGuard", errors.engine), ("the network", errors.network),
        ].compactMap { part, error in error.map { (part, "\(part): \($0)") } }
        let excluded = peers.exclusions.map { (part: "device \($0.device)", what: "device \($0.device): \($0.reason)") }
        let now = clock.now().timeIntervalSince1970
        for difference in [problems.update(found, now: now), exclusions.update(excluded, now: now)] {
            for problem in difference.new { logger.error("not in effect, will retry: \(problem.what)") }
            for part in difference.solved { logger.notice("in effect again: \(part)") }
        }
        let readiness = Readiness(isReady: isCurrent, problems: problems.list, exclusions: exclusions.list)
        let sequence = appliedSequence
        let isStopped = isStopped
        shown.withLock { shown in
            change(&shown)
            guard !isStopped else { return }
            (shown.sequence, shown.readiness) = (sequence, readiness)
        }
    }

    /// The time for which a round may run before devices count as not served.
    private static let longestRound: Int64 = 1_000_000_000

    /// The state that `/ready` reports. Any thread may ask.
    package nonisolated var readiness: Readiness {
        let (shown, condition) = (shown.withLock { $0 }, network.condition)
        var readiness = shown.readiness
        readiness.problems += condition.problems
        if let round = shown.round, clock.nanoseconds() - round.nanoseconds > Self.longestRound {
            readiness.problems.append(
                NetworkProblem(
                    what: "the last changes: they are being applied", since: round.date.timeIntervalSince1970))
        }
        readiness.isReady = readiness.isReady && readiness.problems.isEmpty && condition.isCurrent && !condition.isHeld
        return readiness
    }

    // MARK: - Expiry and scheduled changes

    private func runSweep() async {
        if peers.isDue(at: clock.now()) || !isCurrent || !peers.exclusions.isEmpty || !network.condition.isCurrent {
            await applyChanges()
        }
        endSessions()
        guard sweeping == nil, !isStopped else { return }
        sweeping = Task {
            await sweep()
            sweeping = nil
        }
    }

    private func sweep() async {
        do throws(GatewayDirectoryError) { try tickets?.rotate() } catch {
            let text = "cannot replace the key of login tickets, will retry: \(error)"
            if failures.allows(text, at: clock.nanoseconds()) { logger.error("\(text)") }
        }
        do throws(GatewayError) {
            try await service.sweep(busy: logins.busy, .gateway)
        } catch {
            let text = "cannot note expiries and delete old entries, will retry: \(Self.reason(error))"
            if failures.allows(text, at: clock.nanoseconds()) { logger.error("\(text)") }
        }
    }

    private func startFlush() {
        guard flushing == nil, !isStopped else { return }
        flushing = Task {
            await flush()
            flushing = nil
        }
    }

    /// Stores what was counted since the last write.
    private func flush() async {
        let (devices, now) = (peers.devices, clock.now())
        for peer in device?.peers ?? [] {
            if let id = devices[peer.publicKey] {
                traffic.record(TrafficLedger.Count(peer), of: .key(peer.publicKey), id, at: now)
            }
        }
        for session in login?.sessions ?? [] {
            if let device = logins.sessions[session.id]?.device {
                traffic.record(
                    TrafficLedger.Count(session.moved, session.endpoint), of: .session(session.id), device, at: now,
                    isThere: true)
            }
        }
        let activity = traffic.drain()
        guard !activity.isEmpty else { return }
        do throws(GatewayError) { try await service.record(activity, .gateway) } catch {
            traffic.requeue(activity)
            logger.error("cannot store traffic counters, will retry: \(error)")
        }
    }

    // MARK: - The login tunnel

    /// Decides on a login. Firewall and routes admit the client before it gets its answer.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        let request = LoginRequest(
            login: attempt.login, password: attempt.password, source: attempt.source, busy: logins.busy)
        let resumption = attempt.resumption.flatMap(LoginResumption.init)
        do throws(GatewayError) {
            guard let judgement = try await judgement(on: request, attempt.resumption != nil, resumption) else {
                return .notResumed
            }
            switch judgement {
            case .refused(let refusal): return .refused(refusal.body)
            case .accepted(let device, let password, let addresses):
                // The user and the device may have changed since the password was verified.
                await applyChanges()
                let assignment = settings.assignment(addresses, families: families)
                // The next round may run already, for other logins.
                guard sequence != nil, errors.isEmpty, !isStopped, peers.password(of: device) == password,
                    peers.isInNetwork(device), !assignment.addresses.isEmpty
                else { return .refused(Body.Refusal(.unavailable)) }
                let now = Int64(clock.now().timeIntervalSince1970)
                let verifiedAt = min(resumption?.verifiedAt ?? now, now)
                var random = SystemRandomNumberGenerator()
                let number = random.next() as UInt64
                let formers = logins.begin(
                    attempt.session, device, password, at: clock.nanoseconds() - (now - verifiedAt) * 1_000_000_000,
                    ticketNumber: number)
                for former in formers { login?.disconnect(former) }
                guard tickets != nil else { return .accepted(assignment) }
                let new = LoginResumption(
                    device: device, session: number, password: password, verifiedAt: verifiedAt)
                let lifetime = Int64(settings.loginTunnel.sessionLifetimeSeconds)
                return .resumable(
                    assignment,
                    TicketGrant(content: new.bytes, deadline: lifetime > 0 ? verifiedAt + lifetime : nil))
            }
        } catch {
            logger.error("the gateway cannot decide on a login: \(error)")
            return .refused(Body.Refusal(.unavailable))
        }
    }

    /// - Returns: `nil` if the login has a ticket, and the ticket is void.
    private func judgement(
        on request: LoginRequest, _ hasTicket: Bool, _ resumption: LoginResumption?
    ) async throws(GatewayError) -> LoginJudgement? {
        guard hasTicket else { return try await service.logIn(request, .gateway) }
        guard let resumption else { return nil }
        return try await service.resume(
            resumption, request, isOwnSession: logins.isCurrent(resumption.session, of: resumption.device), .gateway)
    }

    /// Takes the end of a session.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) {
        guard let ended = logins.end(session) else { return }
        traffic.record(TrafficLedger.Count(moved, nil), of: .session(session), ended.device, at: clock.now())
        traffic.forget(.session(session))
        logger.info("a session of device \(ended.device) is over: \(reason)")
    }

    /// Ends sessions whose user, password or device says that they are over.
    private func endSessions() {
        // While the gateway is not sure of its clients, theirs are not over for good: they may log in again.
        for session in logins.over({ peers.password(of: $0) }) {
            login?.disconnect(session, errors.store != nil ? .shutdown : reason(ofEnd: session))
        }
        let lifetime = settings.loginTunnel.sessionLifetimeSeconds
        guard lifetime > 0 else { return }
        // Their clients may log in again immediately.
        for session in logins.began(before: clock.nanoseconds() - Int64(lifetime) * 1_000_000_000) {
            login?.disconnect(session, .closed)
        }
    }

    private func reason(ofEnd id: ClientID) -> EndReason {
        guard let session = logins.sessions[id], !session.isLeaving,
            peers.hasChanged(session.password, of: session.device)
        else { return .removed }
        return .passwordChanged
    }

    // MARK: - Figures

    /// The lifetime of a session that is not renewed, in seconds (WireGuard, section 6.1).
    private static let sessionLifetime: Int64 = 180

    /// The current figures. Safe to read from any thread.
    package nonisolated var figures: RuntimeFigures {
        let shown = shown.withLock { $0 }
        var figures = RuntimeFigures()
        figures.servesWireGuard = settings.servesWireGuard
        figures.network = network.condition
        figures.sequence = shown.sequence
        figures.isCurrent = shown.readiness.isReady
        (figures.rounds, figures.failedRounds) = (shown.rounds, shown.failedRounds)
        figures.readiness = readiness
        figures.login = shown.login.map { LoginFigures($0.statistics, drops: $0.drops, port: $0.port) }
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

    /// The handshakes, endpoints and byte counts of the current peers, by public key.
    package nonisolated var livePeers: [PublicKey: PeerSnapshot] {
        let device = shown.withLock { $0.device }
        return Dictionary((device?.peers ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    }
}
