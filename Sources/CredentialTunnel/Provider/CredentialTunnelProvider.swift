// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import TunnelIO
import WireGuardCore

/// The login tunnel: logs in, applies the server's assignment, carries packets, and logs in again if necessary.
///
/// It is connected once the server has accepted the login. Key renewal and a change of network need no login. If the
/// server answers nothing for 15 seconds and does not respond to a renewal either, or if the session ends, the tunnel is
/// `reasserting` and logs in again, with pauses, without a time limit. It ends only if the server refuses the
/// credentials or reports that it ended the session, if the user stops it, or as
/// ``CredentialTunnelConfiguration/connectivity`` specifies.
public actor CredentialTunnelProvider: PacketTunnelProvider {
    /// The configuration of the tunnel.
    public typealias Configuration = CredentialTunnelConfiguration

    /// The state of one run.
    struct Run {
        let context: ProviderContext
        let configuration: CredentialTunnelConfiguration
        let keys: SharedKeys
        let device: CredentialClientDevice
        var path: NetworkPath
        var assignment: Body.Assignment?
        /// Whether the server has responded on the current network.
        var isConfirmed = false
        /// The number of consecutive failed logins.
        var failures = 0
        /// Decides whether the tunnel carries packets, from the first login on.
        var monitor: ConnectivityMonitor
        /// Pings through the tunnel, or `nil` before the first login.
        var prober: TunnelProber?
        /// The interface if replies to pings are removed from its packets.
        var tap: TapTun?
        let elapsed: ElapsedTime

        var isOffline: Bool { !path.mayReach(host: configuration.serverHost) }
    }

    private let environment: CredentialEnvironment
    /// Answers ``CredentialStatusRequest``. Add an app's own messages after creating the provider.
    public nonisolated let router = MessageRouter()
    var run: Run?
    /// The task that handles the events of logins and session.
    private var driver: Task<Void, Never>?
    /// The task of the next login, or of the move to another network.
    private var work: Task<Void, Never>?
    /// The checks whether packets arrive.
    private var checks: Task<Void, Never>?

    /// Creates a provider on the system's network.
    public init() { self.init(environment: CredentialEnvironment()) }

    /// Creates a provider with the services of `environment`.
    public init(environment: CredentialEnvironment) {
        self.environment = environment
        router.on(CredentialStatusRequest.self) { [weak self] _ in
            guard let status = await self?.status else { throw TunnelError(.notRunning, "the tunnel has ended") }
            return status
        }
    }

    // MARK: - Start and stop

    /// Starts the tunnel. Returns once the server has accepted the login and the settings were applied.
    ///
    /// - Throws: `.configurationInvalid` with all problems, `.secretUnavailable`, `.networkUnavailable`,
    ///   `.nameResolutionFailed`, `.stopped`, and the errors of applying settings. `.authenticationFailed` if the server
    ///   refuses the login. `.serverUnreachable` if no response arrives within
    ///   ``CredentialTunnelConfiguration/loginTimeout``, if the server's port is closed, or if the server accepts no
    ///   logins now. `.keyMismatch` if no response can be opened.
    public func start(
        _ configuration: CredentialTunnelConfiguration, context: ProviderContext
    ) async throws(TunnelError) {
        let problems = configuration.validate()
        guard problems.isEmpty, let serverKey = PublicKey(base64: configuration.serverKey) else {
            throw TunnelError(
                .configurationInvalid, "the tunnel's configuration cannot be used",
                fix: "correct the fields that are listed", problems: problems)
        }
        guard context.path.mayReach(host: configuration.serverHost) else {
            throw TunnelError(.networkUnavailable, "no network is available", fix: "connect to a network and try again")
        }
        let keys = SharedKeys(server: serverKey, presharedKey: try await Self.presharedKey(configuration, context))
        let run = Run(
            context: context, configuration: configuration, keys: keys, device: try makeDevice(context),
            path: context.path,
            monitor: ConnectivityMonitor(
                options: configuration.connectivity, baseline: .init(now: .zero, receivedBytes: 0)),
            elapsed: ElapsedTime(context.clock))
        self.run = run
        do throws(TunnelError) {
            let endpoints = try await logIn(run, within: configuration.loginTimeout.map { .seconds($0) })
            let assignment = try await firstResponse(run, from: endpoints)
            try await adopt(assignment)
            try run.device.attach(tun: try interface(of: run))
        } catch {
            self.run = nil
            await run.device.end()
            throw error
        }
        driver = Task { await follow(run.device.events) }
        if configuration.connectivity.isEnabled { checks = Task { await checkConnectivity() } }
    }

    /// Ends the tunnel, and notifies the server.
    public func stop(_ reason: StopReason) async {
        driver?.cancel()
        work?.cancel()
        checks?.cancel()
        router.close()
        let device = run?.device
        run = nil
        await device?.end()
    }

    private func makeDevice(_ context: ProviderContext) throws(TunnelError) -> CredentialClientDevice {
        var options = CredentialClientDevice.Options()
        options.binding.mark = context.socketMark ?? 0
        options.dataPath = environment.dataPath
        options.random = environment.random
        do throws(TunnelIOError) {
            return try CredentialClientDevice(network: environment.network, options: options) { error in
                context.cancel(TunnelError(.providerFailed, "the tunnel ended by itself: \(error)"))
            }
        } catch {
            throw TunnelError(.providerFailed, "cannot open a UDP socket: \(error)")
        }
    }

    /// Waits for the result of the first login, which ends early if the server's port is closed.
    private func firstResponse(
        _ run: Run, from endpoints: [Endpoint]
    ) async throws(TunnelError) -> Body.Assignment {
        let watch = ClosedPortWatch(
            network: environment.network, mark: run.context.socketMark ?? 0, clock: run.context.clock)
        let device = run.device
        let watcher = Task { if await watch.areClosed(endpoints) { device.cancelLoginAtClosedPort() } }
        defer { watcher.cancel() }
        for await event in device.events {
            switch event {
            case .established(let assignment): return assignment
            case .failed(let error): throw TunnelError(error)
            case .portClosed: throw .closedPort(of: run.configuration.server, endpoints)
            case .ended, .mayBeUnknown, .renewed: continue
            }
        }
        throw TunnelError(.stopped, "the start was cancelled")
    }

    // MARK: - Logins

    /// Sends a login. Reads the password for each login, and does not keep it.
    /// - Parameter limit: The maximum time for the login, or `nil` for the default.
    /// - Returns: The server's addresses.
    @discardableResult
    private func logIn(_ run: Run, within limit: Duration? = nil) async throws(TunnelError) -> [Endpoint] {
        let secret = try await run.context.secret(run.configuration.passwordName)
        let password = secret.withBytes { span in
            String(decoding: span.indices.map { span[$0] }.trimmingLastLineBreak, as: UTF8.self)
        }
        let endpoints = try await endpoints(run)
        guard !Task.isCancelled else { throw TunnelError(.stopped, "the start was cancelled") }
        var configuration = CredentialClient.Configuration(
            keys: run.keys, login: Body.ClientAuthRequest(login: run.configuration.login, password: password))
        configuration.timing = environment.timing
        if let limit { configuration.timing.loginDeadline = limit }
        run.device.logIn(configuration, at: endpoints)
        return endpoints
    }

    /// Returns the server's addresses, the preferred one first.
    private func endpoints(_ run: Run) async throws(TunnelError) -> [Endpoint] {
        let address: EndpointAddress
        do throws(AddressTextError) {
            address = try EndpointAddress(run.configuration.server)
        } catch {
            throw TunnelError(.configurationInvalid, "'server' \(error.reason)")
        }
        let lookup = EndpointLookup(
            resolver: environment.resolver, clock: run.context.clock,
            timeout: .seconds(run.configuration.resolutionTimeout), bypass: await bypass(run))
        return try await lookup.endpoints(of: address, on: run.path)
    }

    /// Returns the bypass for name lookups; `nil` if none is needed. The system's lookups would use the tunnel, or a
    /// policy would block them.
    private func bypass(_ run: Run) async -> TunnelBypass? {
        let policy = max(run.configuration.leakPolicy, run.context.leakPolicy)
        guard let mark = run.context.socketMark, run.assignment != nil || policy.blocksAfterFailure else { return nil }
        return TunnelBypass(
            network: environment.network, mark: mark, servers: await run.context.outsideNameServers())
    }

    private static func presharedKey(
        _ configuration: CredentialTunnelConfiguration, _ context: ProviderContext
    ) async throws(TunnelError) -> PresharedKey {
        let name = configuration.presharedKeyName
        let secret = try await context.secret(name)
        guard let key = PresharedKey(stored: secret.bytes) else {
            throw TunnelError(
                .secretUnavailable, "the secret '\(name)' is not a pre-shared key",
                fix: "store 32 bytes, or their base64 in 44 characters")
        }
        return key
    }

    // MARK: - Events

    private func follow(_ events: AsyncStream<ClientEvent>) async {
        for await event in events {
            guard let run else { return }
            switch event {
            case .established(let assignment):
                do throws(TunnelError) { try await adopt(assignment) } catch { run.context.cancel(error) }
            case .renewed: confirmConnection()
            case .portClosed: continue
            case .mayBeUnknown:
                run.context.logger.notice("the server does not respond in the session: logging in again")
                suspectConnection()
                logInAgain()
            case .ended(.removed):
                run.context.cancel(
                    TunnelError(
                        .sessionTerminated,
                        "the server ended the session: the login is used elsewhere, or the user or device was disabled",
                        fix: "end the other session, or ask the server's administrator"))
            case .ended(.passwordChanged):
                run.context.cancel(
                    TunnelError(
                        .sessionTerminated, "the server ended the session: the user's password was changed",
                        fix: "store the new password, and start the tunnel again"))
            case .ended(let reason):
                run.context.logger.notice("the session has ended (\(reason)): logging in again")
                suspectConnection()
                logInAgain()
            case .failed(let error): failed(error, run)
            }
        }
    }

    /// Applies the server's assignment if it is the first, or has changed.
    private func adopt(_ assignment: Body.Assignment) async throws(TunnelError) {
        guard let run else { throw TunnelError(.stopped, "the start was cancelled") }
        if assignment != run.assignment {
            let context = run.context
            try await context.apply(run.configuration.settings(for: assignment, leakPolicy: context.leakPolicy))
        }
        self.run?.assignment = assignment
        self.run?.failures = 0
        adoptProber(for: assignment)
        confirmConnection()
    }

    /// Handles a failed login. While a session continues, a failure has no effect. Otherwise the login is repeated,
    /// unless the error is final.
    private func failed(_ error: CredentialError, _ run: Run) {
        run.context.logger.warning("\(error)")
        guard !run.device.isEstablished else { return }
        guard !error.isFinal else { return run.context.cancel(TunnelError(error)) }
        scheduleRetry()
    }

    /// The longest pause between two logins, each of which lasts 10 s if the server does not respond. It also limits the time
    /// without a tunnel once a server responds again.
    private static let longestPause = Duration.seconds(8)

    private func scheduleRetry() {
        guard let run else { return }
        self.run?.failures += 1
        suspectConnection()
        logInAgain(after: min(.seconds(1 << min(run.failures, 5)), Self.longestPause))
    }

    func logInAgain(after pause: Duration = .zero) {
        work?.cancel()
        work = Task {
            if pause > .zero { try? await run?.context.clock.sleep(for: pause) }
            guard let run, !run.isOffline, !Task.isCancelled else { return }
            do throws(TunnelError) {
                try await logIn(run)
            } catch {
                guard !Task.isCancelled else { return }
                run.context.logger.warning("\(error)")
                scheduleRetry()
            }
        }
    }

    func confirmConnection() {
        guard let run, !run.isOffline else { return }
        self.run?.isConfirmed = true
        run.context.setReasserting(false)
    }

    func suspectConnection() {
        run?.isConfirmed = false
        run?.context.setReasserting(true)
    }

    /// Handles the end of sleep like a change of network.
    public func wake() async { moveToNetwork() }

    /// Pauses the tunnel while there is no network. On another network the session continues, and a key renewal proves
    /// that packets arrive.
    public func pathChanged(_ path: NetworkPath) async {
        guard let run else { return }
        self.run?.path = path
        guard path.mayReach(host: run.configuration.serverHost) else {
            work?.cancel()
            return suspectConnection()
        }
        if run.isOffline || !path.isSameWay(as: run.path) { moveToNetwork() }
    }

    private func moveToNetwork() {
        guard let run, !run.isOffline else { return }
        suspectConnection()
        guard run.device.isEstablished else { return logInAgain() }
        work?.cancel()
        work = Task {
            // If the name cannot be resolved now, keep the server's address.
            let endpoints = (try? await endpoints(run)) ?? []
            guard !Task.isCancelled else { return }
            do throws(TunnelIOError) {
                try run.device.rebind(to: endpoints)
            } catch {
                run.context.logger.warning("cannot open a new UDP socket: \(error)")
            }
        }
    }

    // MARK: - Messages

    /// The status of the tunnel, or `nil` if none runs.
    public var status: CredentialStatusRequest.Reply? {
        guard let run else { return nil }
        let counts = run.device.statistics
        return CredentialStatusRequest.Reply(
            state: run.isOffline
                ? .paused : run.assignment == nil ? .connecting : run.isConfirmed ? .connected : .reconnecting,
            login: run.configuration.login, server: run.device.endpoint?.description, assignment: run.assignment,
            keyAge: run.device.keyAge.map { $0 / .seconds(1) }, receivedBytes: UInt64(clamping: counts.receivedBytes),
            sentBytes: UInt64(clamping: counts.sentBytes), drops: run.device.drops.counted)
    }
}
