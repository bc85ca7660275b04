// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import Synchronization
import WireGuardCore
public import WireGuardTunnel

/// A WireGuard tunnel whose server is asked for it first: at each start a fresh key is registered by `addKey`, and the
/// reply is the tunnel's configuration.
///
/// Enrolment is part of the start, so it works for starts on demand too, with no app running. When nothing comes through any more, the
/// next server is asked, with another fresh key, and the tunnel moves there while it stays up; only when no server gives a
/// tunnel does it end. The key is in memory alone.
public actor AddKeyTunnelProvider: PacketTunnelProvider {
    private let transport: (any ProvisioningTransport)?
    private let environment: WireGuardEnvironment
    private let inner: WireGuardTunnelProvider
    private let key = HeldKey()
    private var run: Run?
    private var move: Task<Void, Never>?

    private struct Run {
        let configuration: AddKeyConfiguration
        let context: ProviderContext
        let token: SecretBytes
        var server: Int
    }

    /// A provider that cannot start: it has no transport. Hosts make one with ``init(transport:environment:)``.
    public init() {
        transport = nil
        environment = WireGuardEnvironment()
        inner = WireGuardTunnelProvider()
    }

    /// A provider that asks by `transport`.
    public init(transport: any ProvisioningTransport, environment: WireGuardEnvironment = WireGuardEnvironment()) {
        self.transport = transport
        self.environment = environment
        inner = WireGuardTunnelProvider(environment: environment)
    }

    /// Registers a key and brings the tunnel up that the server gave.
    /// - Throws: `.configurationInvalid`; `.secretUnavailable` without a token; `.authenticationFailed` where the server refuses it;
    ///   `.serverUnreachable` where no server answers as it should within 30 seconds; and what
    ///   ``WireGuardTunnelProvider/start(_:context:)`` throws.
    public func start(_ configuration: AddKeyConfiguration, context: ProviderContext) async throws(TunnelError) {
        guard context.path.status != .unsatisfied else {
            throw TunnelError(.networkUnavailable, "there is no network", fix: "connect to one and try again")
        }
        let token = try await context.secret(configuration.tokenName)
        let (tunnel, server) = try await enrol(configuration, token, from: 0, context)
        run = Run(configuration: configuration, context: context, token: token, server: server)
        let host = InnerHost(context, key) { [weak self] error in
            Task { await self?.lost(error) }
        }
        do throws(TunnelError) {
            try await inner.start(tunnel, context: context.passing(through: host))
        } catch {
            run = nil
            throw error
        }
    }

    /// Ends the tunnel.
    public func stop(_ reason: StopReason) async {
        move?.cancel()
        run = nil
        await inner.stop(reason)
        key.clear()
    }

    /// As ``WireGuardTunnelProvider/sleep()``.
    public func sleep() async { await inner.sleep() }

    /// As ``WireGuardTunnelProvider/wake()``.
    public func wake() async { await inner.wake() }

    /// As ``WireGuardTunnelProvider/pathChanged(_:)``.
    public func pathChanged(_ path: NetworkPath) async { await inner.pathChanged(path) }

    /// As ``WireGuardTunnelProvider/handleAppMessage(_:)``.
    public func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? { await inner.handleAppMessage(message) }

    // MARK: - Enrolment

    /// Registers a fresh key, which is the tunnel's from then on.
    private func enrol(
        _ configuration: AddKeyConfiguration, _ token: SecretBytes, from first: Int, _ context: ProviderContext
    ) async throws(TunnelError) -> (WireGuardTunnelConfiguration, Int) {
        guard let transport else {
            throw TunnelError(
                .configurationInvalid, "the provider has no transport",
                fix: "make it with AddKeyTunnelProvider(transport:)")
        }
        let client = AddKeyClient(
            transport: transport, clock: context.clock, logger: context.logger, random: environment.random)
        var random = environment.random()
        let fresh = PrivateKey(using: &random)
        do throws(ProvisioningError) {
            let registration = try await client.register(
                Identity(fresh).publicKey, token: token, at: configuration.servers, from: first,
                socketMark: context.socketMark)
            key.hold(fresh)
            return (configuration.tunnel(registration.reply), registration.server)
        } catch {
            throw error.tunnelError
        }
    }

    /// Nothing comes through any more.
    private func lost(_ error: TunnelError) {
        guard run != nil else { return }
        move?.cancel()
        move = Task { await self.moveOn(error) }
    }

    private func moveOn(_ lost: TunnelError) async {
        guard let run else { return }
        run.context.logger.warning("\(lost.message): asking the next server")
        run.context.setReasserting(true)
        do throws(TunnelError) {
            let (tunnel, server) = try await enrol(
                run.configuration, run.token, from: run.server + 1, run.context)
            guard self.run != nil else { return }
            try await inner.reconfigure(tunnel)
            self.run?.server = server
            run.context.logger.notice("moved to \(run.configuration.servers[server].name)")
        } catch {
            guard self.run != nil, error.code != .stopped else { return }
            run.context.logger.error("no other server gives a tunnel: \(error)")
            run.context.cancel(lost)
        }
    }
}

/// The tunnel's private key, for as long as it is up.
private final class HeldKey: Sendable {
    private let bytes = Mutex<SecretBytes?>(nil)

    var secret: SecretBytes? { bytes.withLock { $0 } }

    func hold(_ key: PrivateKey) {
        let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        bytes.withLock { $0 = secret }
    }

    func clear() { bytes.withLock { $0 = nil } }
}

/// What the tunnel inside takes for its host.
private struct InnerHost: ProviderHost {
    private let outer: ProviderContext
    private let key: HeldKey
    private let isLost: @Sendable (TunnelError) -> Void

    init(_ outer: ProviderContext, _ key: HeldKey, isLost: @escaping @Sendable (TunnelError) -> Void) {
        self.outer = outer
        self.key = key
        self.isLost = isLost
    }

    func apply(_ settings: TunnelSettings) async throws(TunnelError) { try await outer.apply(settings) }

    func setReasserting(_ isReasserting: Bool) { outer.setReasserting(isReasserting) }

    func cancel(_ error: TunnelError) {
        if error.code == .connectivityLost { isLost(error) } else { outer.cancel(error) }
    }

    func secret(_ name: String) async throws(TunnelError) -> SecretBytes {
        guard name == WireGuardTunnelConfiguration.defaultPrivateKeyName else { return try await outer.secret(name) }
        guard let secret = key.secret else { throw TunnelError(.stopped, "the tunnel has ended") }
        return secret
    }

    func outsideNameServers() async -> [IPAddress] { await outer.outsideNameServers() }
}
