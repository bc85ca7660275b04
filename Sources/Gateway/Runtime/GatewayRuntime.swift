// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
package import Logging
import NetworkAddresses
import PacketTunnelLinux
import Synchronization
package import TunnelIO
import TunnelServer
import WireGuardCore
package import WireGuardDevice

/// Runs a gateway's WireGuard tunnel, its login tunnel, or both, and makes peers, firewall and routes match the store.
///
/// The devices in the store are the desired state. The runtime follows the changes in the store, and a change of one
/// device does not interrupt the others. It counts a device as applied only after the device was applied, and repeats a
/// failed round from the desired state. It stores WireGuard's counters at intervals and when it stops, and the changed
/// endpoints of devices within seconds.
package actor GatewayRuntime {
    package struct Options: Sendable {
        package var device = WireGuardDevice.Options(dataPath: DataPathOptions(layout: .server))
        /// The interval between checks for expired devices, for keys that are due to be switched, and for changed endpoints
        /// to store.
        package var sweepInterval: Duration = .seconds(1)
        /// The interval between writes of the counters to the store.
        package var flushInterval: Duration = .seconds(30)
        /// The time to wait at the end for a store that does not answer.
        package var stopLimit: Duration = .seconds(6)
        /// Called after changes in the store took effect, with the time since the runtime received the signal.
        package var onApplied: @Sendable (Duration) -> Void = { _ in }

        package init() {}
    }

    let service: any PeerSource
    let settings: GatewaySettings
    let network: any PeerNetwork
    private let datagrams: any DatagramNetwork
    private let options: Options
    let clock: GatewayClock
    let logger: Logger

    private let loginKeys: LoginTunnelKeys?
    let tickets: LoginTickets?
    private nonisolated let (events, arrivals) = AsyncStream.makeStream(of: Event.self)

    var device: WireGuardDevice?
    var login: CredentialServerDevice?
    /// Whether the tunnels exist, even if they have not started yet.
    private var isMade = false
    var isStopped = false
    var peers: PeerReconciler
    var logins = RuntimeLogins<ClientID>()
    /// The address families that the network has configured: `true` for IPv6, `false` for IPv4.
    var families: Set<Bool> = []
    /// The rounds that follow the store. Each returns whether it has applied all changes.
    nonisolated let rounds = SharedRuns<Bool>()
    /// The reads of the store.
    private let reading = SerialOperations()
    var traffic = TrafficLedger()
    /// The writes to the store in progress. They run outside rounds, so that a store that does not answer delays no end
    /// of access.
    private var sweeping: Task<Void, Never>?
    var flushing: Task<Void, Never>?
    /// WireGuard's number of changed endpoints at the last write; `nil` to try again after a failed one.
    var storedEndpointChanges: UInt64? = 0
    /// Whether a write of everything must follow the one in progress.
    var isFlushDue = false
    /// The earliest time of the next scan for changed endpoints, on the monotonic clock.
    var nextEndpointScan = Int64.min
    /// The errors that were logged in the last minute.
    var failures = OncePerMinute<String>(capacity: 16)
    /// The last change of the store that `peers` includes; `nil` before the first.
    var sequence: Int64?
    /// The number of devices that were read as changed since the last round.
    private var changesRead = 0
    /// The last change of the store that is applied.
    var appliedSequence: Int64 = 0
    /// Whether WireGuard's private key may differ from the gateway's current key.
    var isKeyPending = true
    /// Whether ``run()`` has started the handshakes with all devices that were online before the gateway's start.
    var isRunning = false
    /// The handshakes to start with devices whose access returned.
    nonisolated let (readmissions, readmitted) = AsyncStream.makeStream(of: SessionResumption.self)
    /// The errors of the last attempts: to read the store, to update WireGuard and to update the network.
    var errors = RoundErrors()
    var problems = NetworkProblems()
    var exclusions = NetworkProblems()
    nonisolated let shown = Mutex(Shown())

    struct RoundErrors {
        var store: String?
        var engine: String?
        var network: String?
        var isEmpty: Bool { store == nil && engine == nil && network == nil }
    }

    /// The state that other threads read without waiting.
    struct Shown {
        var device: WireGuardDevice?
        var login: CredentialServerDevice?
        var sequence: Int64 = 0
        var readiness = Readiness(isReady: false)
        var rounds = 0
        var failedRounds = 0
        /// The start of the round in progress, by both clocks; `nil` if none is in progress.
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

    /// Sets up the network and starts the tunnels with all peers. When it returns, devices can connect.
    package func start() async throws(GatewayRuntimeError) {
        guard !isMade, !isStopped else { throw .notStarted }
        if let warning = settings.poolWarning { logger.warning("\(warning)") }
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
        if let failure = device?.listenFailure {
            await stop()
            throw .tunnel(failure.error)
        }
        do throws(TunnelIOError) { try login?.start() } catch {
            await stop()
            throw .login(error)
        }
        for warning in login?.laneWarnings ?? [] { logger.error("login tunnel: \(warning)") }
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
        case second, flush, up
        case closed(WireGuardDevice.CloseReason)
        case loginFailed(TunnelIOError)
    }

    /// Follows the store until the tunnel ends or the task is cancelled. Cancellation is not an error. Then undoes all
    /// changes to the host.
    package func run() async throws(GatewayRuntimeError) {
        guard isMade, !isStopped else { throw .notStarted }
        let arrivals = arrivals
        device?.onClose { arrivals.yield(.closed($0)) }
        device?.onUp { arrivals.yield(.up) }
        let (service, options, device) = (service, options, device)
        let former = resumption(of: peers.formerEndpoints)
        // A stream keeps at most one signal, so a signal during a round causes a single further round.
        let follower = Task {
            for await _ in service.changeSignals() { await applyChanges() }
        }
        let sources = [
            follower,
            Task {
                while (try? await Task.sleep(for: options.sweepInterval)) != nil {
                    storeChangedEndpoints()
                    await withdrawDuringRound()
                    arrivals.yield(.second)
                }
            },
            Task {
                while (try? await Task.sleep(for: options.flushInterval)) != nil { arrivals.yield(.flush) }
            },
            Task { await resume(former, on: device, "were online before the start") },
            Task {
                await SessionResumption.run(readmissions) { resumption in
                    await resume(resumption, on: device, "have access again")
                }
            },
        ]
        isRunning = true
        var resumption: Task<Void, Never>?
        var end: GatewayRuntimeError?
        await withTaskCancellationHandler {
            for await event in events {
                switch event {
                case .second: await runSweep()
                case .flush: startFlush(of: .all)
                case .up:
                    resumption?.cancel()
                    resumption = resumeLostSessions()
                case .closed(let reason): end = .ended(reason)
                case .loginFailed(let error): end = .login(error)
                }
                if end != nil { break }
            }
        } onCancel: {
            arrivals.finish()
        }
        for source in sources { source.cancel() }
        resumption?.cancel()
        isRunning = false
        await follower.value
        // Use a separate task, because this one may be cancelled, and a cancelled task would not store the counters.
        await Task { await stop() }.value
        if let end, end != .ended(.requested) { throw end }
    }

    /// The handshakes to start with those of these devices that were online recently.
    func resumption(of former: [PublicKey: FormerEndpoint]) -> SessionResumption {
        SessionResumption(former, at: clock.now(), flushInterval: options.flushInterval)
    }

    /// Starts handshakes after the gateway's start, and after the access of devices returned.
    /// - Parameter words: The cause for the log, such as "were online before the start".
    private nonisolated func resume(
        _ resumption: SessionResumption, on device: WireGuardDevice?, _ words: String
    ) async {
        let count = await resumption.run { key, endpoint in
            device?.requestHandshake(with: key, atFormer: endpoint, attempts: SessionResumption.attempts) == true
        }
        if count > 0 { logger.info("started handshakes with \(count) devices that \(words)") }
    }

    /// Starts handshakes with the devices whose sessions have ended because the interface was down.
    private func resumeLostSessions() -> Task<Void, Never> {
        let (device, logger) = (device, logger)
        let resumption = SessionResumption(withoutSession: device?.peers ?? [], at: clock.now())
        return Task {
            let count = await resumption.run { key, _ in
                guard let device, device.peer(key)?.hasSession == false else { return false }
                device.requestHandshake(with: key)
                return true
            }
            if count > 0 { logger.info("started handshakes with \(count) devices: the interface was down") }
        }
    }

    /// Stores the counters and undoes all changes to the host. Later calls have no effect.
    package func stop() async {
        guard !isStopped else { return }
        isStopped = true
        let isAnswered = await isDone(within: options.stopLimit) { [self, login] in
            // Stop the login tunnel while the database is open: this counts the traffic of the last sessions, and waits
            // for verdicts on logins, which need the database.
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
        await flush(.all)
        let unsaved = traffic.drain().count
        if unsaved > 0 { logger.error("not saved: the last traffic counters of \(unsaved) devices") }
    }

    // MARK: - Following

    /// Waits for a round that begins after this call, and for the publication of its result. Calls that wait share a round.
    /// - Returns: Whether the round has applied all changes.
    @discardableResult
    func applyChanges() async -> Bool { await rounds.run { [self] in await runRound() } }

    private func runRound() async -> Bool {
        let began = ContinuousClock.now
        let (nanoseconds, date) = (clock.nanoseconds(), clock.now())
        shown.withLock { $0.round = (nanoseconds, date) }
        let hasChanged = try? await follow()
        publish { shown in
            shown.round = nil
            shown.rounds += 1
            if hasChanged == nil { shown.failedRounds += 1 }
        }
        if hasChanged == true { options.onApplied(ContinuousClock.now - began) }
        return hasChanged != nil
    }

    /// Runs a round: reads the changes of the store, and applies the differences between desired and applied state.
    ///
    /// If the store fails, the devices that were read before are still applied.
    /// - Returns: Whether there were differences.
    /// - Throws: `.unavailable` with the first failure. ``errors`` has the others.
    @discardableResult
    private func follow() async throws(GatewayError) -> Bool {
        var failure = await readChanges()
        // The devices are not known yet: applying an empty list would end the connections of all devices.
        if sequence == nil, let failure { throw failure }
        let (hasChanges, read) = (!peers.isCurrent || isKeyPending, sequence)
        do throws(GatewayError) { try await applyPeers() } catch { failure = failure ?? error }
        // The round's lists and commands are free now. The allocator would keep their memory.
        if changesRead >= Self.updateSize { PageAdvice.trimHeap() }
        changesRead = 0
        if let failure { throw failure }
        appliedSequence = read ?? 0
        return hasChanges
    }

    /// Reads the changes of the store into ``peers``, one call after another, and ends sessions without access.
    /// - Returns: The error of the store.
    private func readChanges() async -> GatewayError? {
        await reading.run { [self] in await readNextChanges() }
    }

    private func readNextChanges() async -> GatewayError? {
        errors.store = nil
        var failure: GatewayError?
        var denials = service.denials
        var feed: Feed<Peer>?
        do throws(GatewayError) { feed = try await service.peers(after: sequence, .gateway) } catch {
            errors.store = Self.reason(error)
            failure = error
        }
        // An end of access may have been requested since the store was read.
        denials.formUnion(service.denials)
        peers.update(with: feed, denials: denials, at: clock.now())
        if let feed {
            if feed.serverKeysChanged || feed.isComplete { isKeyPending = true }
            sequence = feed.sequence
            changesRead += feed.changed.count + feed.removed.count
        }
        endSessions()
        return failure
    }

    /// Removes devices without access from WireGuard, and ends their sessions, while a round waits for the network. The
    /// network may need long, for example if nft hangs, and the next round does the rest.
    private func withdrawDuringRound() async {
        guard shown.withLock({ $0.round != nil }), sequence != nil else { return }
        _ = await readChanges()
        guard !isStopped else { return }
        peers.withdraw()
        do throws(GatewayError) { try updateEngine() } catch { logger.debug("will retry: \(error)") }
    }

    /// Applies the desired peers. It removes peers from WireGuard before it changes the firewall, and adds peers to
    /// WireGuard afterwards, so that each packet is filtered by the rules of its device.
    private func applyPeers() async throws(GatewayError) {
        guard isMade else { return }
        var failure: GatewayError?
        peers.withdraw()
        do throws(GatewayError) { try updateEngine() } catch { failure = error }
        // Update the firewall even if WireGuard has failed, so that it denies traffic of removed devices.
        let refused = try await updateNetwork()
        peers.admit(without: refused)
        if let failure { throw failure }
        try updateEngine()
    }

    /// Applies the desired clients. Removals take effect before the first wait. If a device gets the address of a
    /// former device, the call waits for an attempt to end the former device's connections; later rounds and logins
    /// wait too.
    private func updateNetwork() async throws(GatewayError) -> [IPPrefix: TunnelServerError] {
        let (update, released) = (peers.network.begin(), peers.released)
        var refused = peers.refused
        // A call without changes makes the network try excluded addresses again.
        if !update.isEmpty || !refused.isEmpty || !network.condition.isCurrent || !released.isEmpty {
            do throws(TunnelServerError) {
                refused = try await network.apply(
                    update.changes.mapValues { $0.map(peers.access) }, isComplete: update.isComplete,
                    released: released)
            } catch {
                peers.network.invalidate()
                errors.network = "\(error)"
                throw .unavailable("\(error)")
            }
        }
        errors.network = nil
        peers.network.finish(update)
        peers.recordReleased(released)
        return refused
    }

    /// The reason of an error. The error's description omits it, because callers of the API see the description.
    static func reason(_ error: GatewayError) -> String {
        if case .unavailable(let reason) = error { reason } else { "\(error)" }
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
            let text = "cannot record expiries and delete old entries, will retry: \(Self.reason(error))"
            if failures.allows(text, at: clock.nanoseconds()) { logger.error("\(text)") }
        }
    }
}
