// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import Synchronization
import WireGuardCore
public import WireGuardTunnel

/// A WireGuard tunnel that a server assigns: at each start, `addKey` registers a new key, and the reply is the
/// configuration of the tunnel.
///
/// The key is registered as a part of the start, so on-demand starts work even while the app does not run. If a server
/// assigns a tunnel but does not answer in it, the provider asks the next server. When no data arrives, the provider
/// registers another new key at the next server, and moves the tunnel there while it stays up. It asks a lost server
/// again only after another server has delivered IP packets, such as replies to pings; a handshake alone does not
/// count. The tunnel ends with `.connectivityLost` if no server is left or none assigns a tunnel. The key is kept in
/// memory only.
public actor AddKeyTunnelProvider: PacketTunnelProvider {
    private let transport: (any ProvisioningTransport)?
    private let environment: WireGuardEnvironment
    private let inner: WireGuardTunnelProvider
    private let keys = HeldKeys()
    private var run: Run?
    private var move: Task<Void, Never>?

    private struct Run {
        let configuration: AddKeyConfiguration
        let context: ProviderContext
        let token: SecretBytes
        var server: Int
        /// The registration that the tunnel uses, or `nil` before the tunnel is up.
        var registration: (reply: AddKeyReply, server: Int)?
        var path: NetworkPath
        /// Whether the start has succeeded.
        var isUp = false
        /// The indices of the servers that were lost since any server last delivered packets.
        var lost: Set<Int> = []
    }

    /// Creates a provider that cannot start, because it has no transport. Hosts must use
    /// ``init(transport:environment:)``.
    public init() {
        transport = nil
        environment = WireGuardEnvironment()
        inner = WireGuardTunnelProvider()
    }

    /// Creates a provider that sends its requests with `transport`.
    public init(transport: any ProvisioningTransport, environment: WireGuardEnvironment = WireGuardEnvironment()) {
        self.init(transport: transport, environment: environment, inner: .init(environment: environment))
    }

    /// Creates a provider that runs `inner` as its tunnel.
    init(transport: any ProvisioningTransport, environment: WireGuardEnvironment, inner: WireGuardTunnelProvider) {
        self.transport = transport
        self.environment = environment
        self.inner = inner
        router.on(AddKeyStatusRequest.self) { [weak self] _ in
            guard let status = await self?.status else { throw TunnelError(.notRunning, "the tunnel has ended") }
            return status
        }
    }

    /// Registers a key and starts the assigned tunnel.
    /// - Throws: `.configurationInvalid`; `.secretUnavailable` without a token; `.authenticationFailed` if the server
    ///   refuses the token; `.serverUnreachable` if no server gives a valid answer within 30 seconds; and the errors of
    ///   `WireGuardTunnelProvider.start(_:context:)`.
    public func start(_ configuration: AddKeyConfiguration, context: ProviderContext) async throws(TunnelError) {
        guard !context.path.isCutOff else {
            throw TunnelError(.networkUnavailable, "there is no network", fix: "no network is available")
        }
        let token = try await context.secret(configuration.tokenName)
        run = Run(configuration: configuration, context: context, token: token, server: 0, path: context.path)
        do throws(TunnelError) {
            try await bringUp(context)
        } catch {
            run = nil
            keys.clear()
            throw error
        }
    }

    /// Starts the tunnel at one server after another, until a start succeeds.
    private func bringUp(_ context: ProviderContext) async throws(TunnelError) {
        let host = InnerHost(outer: context, keys: keys) { [weak self] error in
            Task { await self?.lost(error) }
        }
        var tried: Set<Int> = []
        var next = 0
        var failure: TunnelError?
        while true {
            let (reply, server): (AddKeyReply, Int)
            do throws(TunnelError) {
                (reply, server) = try await enrol(from: next, except: tried)
            } catch {
                // The remaining servers assign no tunnel: report the last error of the tunnels that were tried.
                throw error.code == .serverUnreachable ? failure ?? error : error
            }
            tried.insert(server)
            run?.server = server
            guard let configuration = run?.configuration else { throw TunnelError(.stopped, "the tunnel has ended") }
            do throws(TunnelError) {
                try await inner.start(configuration.tunnel(reply), context: context.passing(through: host))
                run?.isUp = true
                run?.registration = (reply, server)
                return
            } catch {
                guard error.code == .serverUnreachable, tried.count < configuration.servers.count else { throw error }
                context.logger.warning("\(error.message): asking the next server")
                failure = error
                next = server + 1
            }
        }
    }

    /// Ends the tunnel.
    public func stop(_ reason: StopReason) async {
        move?.cancel()
        run = nil
        await inner.stop(reason)
        keys.clear()
    }

    /// Passes the call to `WireGuardTunnelProvider.sleep()`.
    public func sleep() async { await inner.sleep() }

    /// Passes the call to `WireGuardTunnelProvider.wake()`.
    public func wake() async { await inner.wake() }

    /// Stores the path, and passes the call to `WireGuardTunnelProvider.pathChanged(_:)`.
    public func pathChanged(_ path: NetworkPath) async {
        run?.path = path
        await inner.pathChanged(path)
    }

    /// The message router of the inner `WireGuardTunnelProvider`.
    public nonisolated var router: MessageRouter { inner.router }

    /// The registration that the tunnel uses, or `nil` before the tunnel is up and after it has ended.
    public var status: AddKeyStatusRequest.Reply? {
        guard let run, let (reply, server) = run.registration else { return nil }
        return AddKeyStatusRequest.Reply(
            server: run.configuration.servers[server].name, serverKey: reply.serverKey.base64,
            endpoint: reply.endpoint.description, address: reply.address, nameServers: reply.nameServers,
            innerAddress: reply.innerAddress)
    }

    // MARK: - Enrolment

    /// Registers a new key, which is the key of the tunnel from then on.
    /// - Parameters:
    ///   - first: The index of the first server to ask.
    ///   - excluded: The indices of the servers that are not asked. At least one server must remain.
    private func enrol(
        from first: Int, except excluded: Set<Int>
    ) async throws(TunnelError) -> (AddKeyReply, Int) {
        guard let transport else {
            throw TunnelError(
                .configurationInvalid, "the provider has no transport",
                fix: "make it with AddKeyTunnelProvider(transport:)")
        }
        guard let run else { throw TunnelError(.stopped, "the tunnel has ended") }
        let (configuration, context) = (run.configuration, run.context)
        let client = AddKeyClient(
            transport: transport, clock: context.clock, logger: context.logger, random: environment.random)
        var random = environment.random()
        let fresh = PrivateKey(using: &random)
        // Use one entry for each server, with the current address of its name, so that indices stay valid.
        var servers: [ProvisioningServer] = []
        let count = configuration.servers.count
        let places = (0..<count).map { (first + $0) % count }.filter { !excluded.contains($0) }
        for server in places.map({ configuration.servers[$0] }) {
            let found = await environment.located(
                [server], isUp: run.isUp, policy: configuration.leakPolicy, path: run.path, context)
            servers.append(found.first ?? server)
        }
        do throws(ProvisioningError) {
            let registration = try await client.register(
                fresh.publicKey, token: run.token, at: servers, socketMark: context.socketMark)
            // If the tunnel was stopped, do not hold the key: the stop has removed all keys, so this key would stay in
            // memory.
            guard self.run != nil else { throw ProvisioningError.cancelled }
            keys.hold(fresh)
            let (reply, place) = (registration.reply, places[registration.server])
            context.logger.notice(
                "registered a new key at \(configuration.servers[place].name): \(reply.address), server \(reply.endpoint)"
            )
            return (reply, place)
        } catch {
            throw error.tunnelError
        }
    }

    /// Called when no data arrives.
    private func lost(_ error: TunnelError) {
        guard run != nil else { return }
        move?.cancel()
        move = Task { await self.moveOn(error) }
    }

    private func moveOn(_ lost: TunnelError) async {
        // The lost server has delivered packets before, so servers that were lost earlier may work again.
        if await inner.hasCarriedPackets { run?.lost = [] }
        guard !Task.isCancelled, let place = run?.server else { return }
        run?.lost.insert(place)
        guard let run else { return }
        guard run.lost.count < run.configuration.servers.count else {
            run.context.logger.error("\(lost.message): no other server is left")
            return run.context.cancel(lost)
        }
        run.context.logger.warning("\(lost.message): asking the next server")
        run.context.setReasserting(true)
        do throws(TunnelError) {
            let (reply, server) = try await enrol(from: run.server + 1, except: run.lost)
            guard self.run != nil else { return }
            // Set the server before the tunnel moves, because the tunnel may lose this server before this task
            // continues.
            self.run?.server = server
            try await inner.reconfigure(run.configuration.tunnel(reply))
            if self.run?.server == server { self.run?.registration = (reply, server) }
            run.context.logger.notice("moved to \(run.configuration.servers[server].name)")
        } catch {
            guard self.run != nil, error.code != .stopped else { return }
            run.context.logger.error("no other server assigns a tunnel: \(error)")
            run.context.cancel(lost)
        }
    }
}
