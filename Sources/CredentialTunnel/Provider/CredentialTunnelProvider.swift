// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import TunnelIO
import WireGuardCore

/// The login tunnel: logs in, applies the server's assignment, forwards packets, and logs in again if necessary.
///
/// It is up when the server has accepted the login. Keys are renewed without the password; a change of network needs no login
/// either. If the session is lost (the server was restarted, or was unreachable for three minutes), the tunnel is
/// `reasserting` and logs in by itself, with pauses, without a time limit. It ends only if the server refuses the credentials
/// or ends the session, or if the user stops it.
public actor CredentialTunnelProvider: PacketTunnelProvider {
    /// The configuration of the tunnel.
    public typealias Configuration = CredentialTunnelConfiguration

    /// The state of one run.
    private struct Run {
        let context: ProviderContext
        let configuration: CredentialTunnelConfiguration
        let keys: SharedKeys
        let device: CredentialClientDevice
        var path: NetworkPath
        var assignment: Body.Assignment?
        /// Whether packets pass, as far as is known.
        var isProven = false
        /// How many logins in a row have failed.
        var failures = 0

        var isOffline: Bool { !path.mayReach(host: configuration.serverHost) }
    }

    private let environment: CredentialEnvironment
    /// Answers ``CredentialStatusRequest``. An app's own messages are added where the provider is made.
    public nonisolated let router = MessageRouter()
    private var run: Run?
    /// Follows what becomes of logins and session.
    private var driver: Task<Void, Never>?
    /// The next login, or the way to another network.
    private var work: Task<Void, Never>?

    /// A provider on the system's network.
    public init() { self.init(environment: CredentialEnvironment()) }

    /// A provider that uses what `environment` says.
    public init(environment: CredentialEnvironment) {
        self.environment = environment
        router.on(CredentialStatusRequest.self) { [weak self] _ in
            guard let status = await self?.status else { throw TunnelError(.notRunning, "the tunnel has ended") }
            return status
        }
    }

    // MARK: - Start and stop

    /// Starts the tunnel; returns when the server has accepted the login and its settings are applied.
    ///
    /// - Throws: `.configurationInvalid` with every problem, `.secretUnavailable`, `.networkUnavailable`,
    ///   `.nameResolutionFailed`, `.authenticationFailed` if the server refuses the login, `.serverUnreachable` if nothing
    ///   answers within 10 seconds or the server accepts no login now, `.keyMismatch` if an answer does not open, `.stopped`,
    ///   and the errors of applying settings.
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
            throw TunnelError(.networkUnavailable, "there is no network", fix: "connect to one and try again")
        }
        let keys = SharedKeys(server: serverKey, presharedKey: try await Self.presharedKey(configuration, context))
        let run = Run(
            context: context, configuration: configuration, keys: keys, device: try makeDevice(context),
            path: context.path)
        self.run = run
        do throws(TunnelError) {
            try await logIn(run)
            let assignment = try await firstAnswer(run)
            try await adopt(assignment)
            try run.device.attach(tun: try context.packetFlow.takeDevice())
        } catch {
            self.run = nil
            await run.device.end()
            throw error
        }
        driver = Task { await follow(run.device.events) }
    }

    /// Ends the tunnel, and tells the server.
    public func stop(_ reason: StopReason) async {
        driver?.cancel()
        work?.cancel()
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
            throw TunnelError(.providerFailed, "no socket for the tunnel: \(error)")
        }
    }

    /// Waits for the result of the first login.
    private func firstAnswer(_ run: Run) async throws(TunnelError) -> Body.Assignment {
        for await event in run.device.events {
            switch event {
            case .established(let assignment): return assignment
            case .failed(let error): throw TunnelError(error)
            case .ended, .mayBeUnknown, .renewed: continue
            }
        }
        throw TunnelError(.stopped, "the start was cancelled")
    }

    // MARK: - Logins

    /// Sends a login. The password is read for each, and forgotten.
    private func logIn(_ run: Run) async throws(TunnelError) {
        let secret = try await run.context.secret(run.configuration.passwordName)
        let password = secret.withBytes { span in
            String(decoding: span.indices.map { span[$0] }.trimmingLastLineBreak, as: UTF8.self)
        }
        let endpoints = try await endpoints(run)
        guard !Task.isCancelled else { throw TunnelError(.stopped, "the start was cancelled") }
        var configuration = CredentialClient.Configuration(
            keys: run.keys, login: Body.ClientAuthRequest(login: run.configuration.login, password: password))
        configuration.timing = environment.timing
        run.device.logIn(configuration, at: endpoints)
    }

    /// Where the server may be, the preferred address first.
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

    /// The way past the tunnel for lookups: the system's own would go into it, or be held back by a policy.
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
                .secretUnavailable, "the secret '\(name)' is not a valid pre-shared key",
                fix: "store 32 bytes, or their base64 in 44 characters")
        }
        return key
    }

    // MARK: - While it runs

    private func follow(_ events: AsyncStream<ClientEvent>) async {
        for await event in events {
            guard let run else { return }
            switch event {
            case .established(let assignment):
                do throws(TunnelError) { try await adopt(assignment) } catch { run.context.cancel(error) }
            case .renewed: prove()
            case .mayBeUnknown:
                run.context.logger.notice("the server may have forgotten the session: logging in again")
                logInAgain()
            case .ended(.removed):
                run.context.cancel(
                    TunnelError(
                        .sessionTerminated, "the server took the session away",
                        fix: "see whether the same login is used elsewhere"))
            case .ended(let reason):
                run.context.logger.notice("the session is over (\(reason)): logging in again")
                doubt()
                logInAgain()
            case .failed(let error): failed(error, run)
            }
        }
    }

    /// Applies the server's assignment: the first, or a changed one.
    private func adopt(_ assignment: Body.Assignment) async throws(TunnelError) {
        guard let run else { throw TunnelError(.stopped, "the start was cancelled") }
        if assignment != run.assignment {
            let context = run.context
            try await context.apply(run.configuration.settings(for: assignment, leakPolicy: context.leakPolicy))
        }
        self.run?.assignment = assignment
        self.run?.failures = 0
        prove()
    }

    /// A failed login is ignored while a session lives; otherwise it is repeated, unless repeating is useless.
    private func failed(_ error: CredentialError, _ run: Run) {
        run.context.logger.warning("\(error)")
        guard !run.device.isEstablished else { return }
        guard !error.isFinal else { return run.context.cancel(TunnelError(error)) }
        tryLater()
    }

    private func tryLater() {
        guard let run else { return }
        self.run?.failures += 1
        doubt()
        logInAgain(after: .seconds(min(1 << min(run.failures, 5), 30)))
    }

    private func logInAgain(after pause: Duration = .zero) {
        work?.cancel()
        work = Task {
            if pause > .zero { try? await run?.context.clock.sleep(for: pause) }
            guard let run, !run.isOffline, !Task.isCancelled else { return }
            do throws(TunnelError) {
                try await logIn(run)
            } catch {
                guard !Task.isCancelled else { return }
                run.context.logger.warning("\(error)")
                tryLater()
            }
        }
    }

    private func prove() {
        guard let run, !run.isOffline else { return }
        self.run?.isProven = true
        run.context.setReasserting(false)
    }

    private func doubt() {
        run?.isProven = false
        run?.context.setReasserting(true)
    }

    /// Continues after sleep as after a change of network.
    public func wake() async { moveOn() }

    /// Pauses without a network, and continues on another one: the session stays, and new keys prove that packets pass.
    public func pathChanged(_ path: NetworkPath) async {
        guard let run else { return }
        self.run?.path = path
        guard path.mayReach(host: run.configuration.serverHost) else {
            work?.cancel()
            return doubt()
        }
        if run.isOffline || !path.isSameWay(as: run.path) { moveOn() }
    }

    private func moveOn() {
        guard let run, !run.isOffline else { return }
        doubt()
        guard run.device.isEstablished else { return logInAgain() }
        work?.cancel()
        work = Task {
            // Where the name has no address now, the server is where it was.
            let endpoints = (try? await endpoints(run)) ?? []
            guard !Task.isCancelled else { return }
            do throws(TunnelIOError) {
                try run.device.rebind(to: endpoints)
            } catch {
                run.context.logger.warning("no new socket: \(error)")
            }
        }
    }

    // MARK: - Messages

    /// The status of the tunnel, or `nil` if there is none.
    public var status: CredentialStatusRequest.Reply? {
        guard let run else { return nil }
        let counts = run.device.statistics
        return CredentialStatusRequest.Reply(
            state: run.isOffline
                ? .paused : run.assignment == nil ? .connecting : run.isProven ? .connected : .reconnecting,
            login: run.configuration.login, server: run.device.endpoint?.description, assignment: run.assignment,
            keyAge: run.device.keyAge.map { $0 / .seconds(1) }, receivedBytes: UInt64(clamping: counts.receivedBytes),
            sentBytes: UInt64(clamping: counts.sentBytes), drops: run.device.drops.counted)
    }
}
