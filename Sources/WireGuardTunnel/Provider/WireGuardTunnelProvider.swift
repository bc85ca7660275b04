// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import TunnelIO
import WireGuardCore

/// The provider of a WireGuard tunnel. It resolves the peers, applies the settings, runs a `WireGuardDevice` on the
/// packet flow, proves that the tunnel works, and keeps it working.
///
/// The tunnel is up once a handshake with a peer has completed. If no peer has an endpoint, or the start does not wait
/// for a handshake, it is up immediately, but `reasserting` until a peer connects. The ``ConnectivityMonitor`` then
/// checks it. Without a network the tunnel pauses and is `reasserting`. When the network returns or changes, the tunnel
/// binds new sockets and resolves its peers again. If healing fails, the tunnel stays up, `reasserting`, and keeps
/// trying until the user stops it, so that its routed traffic takes no other route. With
/// ``ConnectivityOptions/endWhenDead`` it ends with `.connectivityLost` instead.
public actor WireGuardTunnelProvider: PacketTunnelProvider {
    /// The configuration of the tunnel.
    public typealias Configuration = WireGuardTunnelConfiguration

    typealias PlaneMaker =
        @Sendable (
            any TunDevice, UAPIDeviceUpdate, Logger, @escaping @Sendable (TunnelError) -> Void
        ) throws(TunnelError) -> any DataPlane

    /// The state of one run, from the moment when packets may flow.
    struct Run {
        /// The number of the run. An awaited result belongs to the current run if the numbers are equal.
        let number: Int
        let context: ProviderContext
        let plane: any DataPlane
        let elapsed: ElapsedTime
        /// The configuration with its keys.
        var configuration: WireGuardTunnelConfiguration
        var prober: TunnelProber
        var lifecycle: WireGuardLifecycle
        var path: NetworkPath
        /// The addresses that the start found for each peer. Empty once the start has returned.
        var candidates: [PublicKey: [Endpoint]]
        var watch = PeerWatch()
        /// The peers' addresses that the host knows.
        var servers: Set<IPAddress> = []
        /// The addresses for which it was checked whether the host must know them.
        var checkedAddresses: Set<IPAddress> = []
        /// Addresses of peers that are not yet in `checkedAddresses`.
        var newAddresses: Set<IPAddress> = []

        /// Reports of packets that have passed through the tunnel.
        let packets = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        /// The keepalives that were turned off for a pause.
        var pausedKeepalives: [PublicKey: UInt16] = [:]
    }

    let environment: WireGuardEnvironment
    private let makePlane: PlaneMaker
    /// Answers ``StatusRequest`` and ``ReconfigureRequest``. An app adds its own messages when it creates the provider
    /// (`makeProvider`).
    ///
    /// The limit is high, because a configuration or report with many peers is long. Each channel has its own limit
    /// too.
    public nonisolated let router = MessageRouter(
        limits: MessageRouter.Limits(maximumByteCount: MessageContainer.localMaximumByteCount))
    var run: Run?
    /// The number of the last run.
    private var lastRun = 0
    var driver: Task<Void, Never>?
    var refreshing: Task<Void, Never>?
    /// The task that requests the handshakes with ``dueHandshakes``.
    var requesting: Task<Void, Never>?
    /// Peers with which a handshake is requested in a later turn.
    var dueHandshakes: ArraySlice<PublicKey> = []

    /// Makes a provider on the system's network.
    public init() {
        self.init(environment: WireGuardEnvironment())
    }

    /// Makes a provider with the given environment.
    public init(environment: WireGuardEnvironment) {
        self.init(environment: environment) { tun, update, logger, onFailure throws(TunnelError) in
            try DeviceDataPlane(tun, update, environment: environment, logger: logger, onFailure: onFailure)
        }
    }

    /// Makes a provider on another data plane.
    init(environment: WireGuardEnvironment, makePlane: @escaping PlaneMaker) {
        self.environment = environment
        self.makePlane = makePlane
        registerMessages()
    }

    // MARK: - Start and stop

    /// Starts the tunnel. Returns once there is proof that it works or, if the configuration does not wait for proof, once
    /// its settings are applied.
    ///
    /// - Throws: `.configurationInvalid` with every problem, `.secretUnavailable`, `.stopped`, and the errors of applying
    ///   settings. If the start waits for proof, also `.nameResolutionFailed` if no peer has an address,
    ///   `.networkUnavailable`, and `.serverUnreachable` if no peer answers in time.
    public func start(_ configuration: WireGuardTunnelConfiguration, context: ProviderContext) async throws(TunnelError)
    {
        try Self.check(configuration)
        let waits = configuration.waitsForHandshake && configuration.hasEndpoints
        var isOffline = configuration.hasNoWay(on: context.path, [:])
        guard !isOffline || !waits else { throw Self.noWay(configuration, on: context.path) }
        let configuration = try await configuration.completed(by: context)
        let candidates = waits ? try await resolve(configuration, on: context.path, context) : [:]
        try Self.checkCancelled()
        let places = candidates.mapValues { $0.map(\.address) }
        isOffline = configuration.hasNoWay(on: context.path, places)
        guard !isOffline || !waits else { throw Self.noWay(configuration, on: context.path) }
        let servers = Set(places.values.joined()).union(configuration.literalServers)
        try await context.apply(configuration.settings(leakPolicy: context.leakPolicy, servers: servers))
        try Self.checkCancelled()
        let update = configuration.tunnel.deviceUpdate(endpoints: candidates.compactMapValues(\.first))
        let plane = try makePlane(try context.packetFlow.leaseDevice(), update, context.logger) { context.cancel($0) }
        lastRun += 1
        let run = Run(
            number: lastRun, context: context, plane: plane, elapsed: ElapsedTime(context.clock),
            configuration: configuration, prober: Self.makeProber(configuration),
            lifecycle: WireGuardLifecycle(configuration.connectivity, hasEndpoints: configuration.hasEndpoints),
            path: context.path, candidates: candidates, servers: servers, checkedAddresses: servers)
        self.run = run
        adoptProber()
        followPackets(of: run)
        let timeout = waits ? Duration.seconds(configuration.handshakeTimeout) : nil
        handle(.started(handshakeTimeout: timeout, isOffline: isOffline))
        guard let timeout else { return }
        do throws(TunnelError) {
            try await waitForHandshake(run, within: timeout)
        } catch {
            if current(run) != nil { endRun() }
            await plane.close()
            throw error
        }
    }

    /// Ends the tunnel.
    public func stop(_ reason: StopReason) async {
        router.close()
        let plane = run?.plane
        endRun()
        await plane?.close()
    }

    private func endRun() {
        cancelTasks()
        handle(.stop)
        run?.packets.continuation.finish()
        run = nil
    }

    static func check(_ configuration: WireGuardTunnelConfiguration) throws(TunnelError) {
        let problems = configuration.validate()
        guard problems.isEmpty else { throw WireGuardTunnelConfiguration.invalid(problems) }
    }

    private static func noWay(_ configuration: WireGuardTunnelConfiguration, on path: NetworkPath) -> TunnelError {
        guard !path.isCutOff else {
            return TunnelError(.networkUnavailable, "there is no network", fix: "no network is available")
        }
        return TunnelError(
            .networkUnavailable,
            "there is no route to \(configuration.remoteAddress), and no default route",
            fix: "connect to a network with a route to it, or add a route, and try again")
    }

    static func checkCancelled() throws(TunnelError) {
        if Task.isCancelled { throw startCancelled }
    }

    private static let startCancelled = TunnelError(.stopped, "the start was cancelled")

    static func makeProber(_ configuration: WireGuardTunnelConfiguration) -> TunnelProber {
        TunnelProber(
            target: configuration.connectivity.pingAddress, sources: configuration.addresses.map(\.address),
            servers: configuration.dns?.servers ?? [])
    }

    func adoptProber() {
        guard let run else { return }
        let prober = run.prober
        run.plane.setFilter { prober.consume($0) }
    }

    /// Waits for a handshake with one of the peers that have an endpoint, at each of their addresses in turn.
    private func waitForHandshake(_ run: Run, within limit: Duration) async throws(TunnelError) {
        while let now = current(run) {
            handle(.checked)
            guard let lifecycle = current(run)?.lifecycle else { break }
            switch lifecycle.stage {
            case .ended: throw Self.noAnswer(now.configuration, within: limit)
            case .awaitingHandshake: break
            case .new, .connecting, .listening, .watching:
                self.run?.candidates = [:]
                // Count the answers that peers owe from here on.
                _ = self.run?.observe()
                return
            }
            guard let delay = lifecycle.nextCheck, (try? await now.context.clock.sleep(for: delay)) != nil else {
                break
            }
        }
        throw Self.startCancelled
    }

    /// Makes the error for a start without an answer. A peer that can start a handshake itself may not be running yet.
    private static func noAnswer(
        _ configuration: WireGuardTunnelConfiguration, within limit: Duration
    ) -> TunnelError {
        var fix = "check the server's address and port, both keys, and that UDP passes"
        if configuration.listenPort ?? 0 != 0 {
            fix += "; if the other side starts later, do not wait for it: set 'waitsForHandshake' to false, "
            fix += "or use 'culvert up --no-wait'"
        }
        return TunnelError(
            .serverUnreachable, "no answer from \(configuration.remoteAddress) within \(limit)", fix: fix)
    }

    /// Moves each peer to one of the addresses that the start has found.
    func moveToCandidates(_ attempt: Int, _ run: Run) {
        move(
            run.candidates.compactMap { key, endpoints in
                guard endpoints.count > 1 else { return nil }
                var change = UAPIPeerUpdate(publicKey: key)
                change.updateOnly = true
                change.endpoint = endpoints[attempt % endpoints.count]
                return change
            }, run)
    }

    // MARK: - Messages

    private nonisolated func registerMessages() {
        router.on(StatusRequest.self) { [weak self] _ in
            guard let self else { throw TunnelError(.notRunning, "the tunnel has ended") }
            return await self.status
        }
        router.on(ReconfigureRequest.self) { [weak self] request in
            guard let self else { throw TunnelError(.notRunning, "the tunnel has ended") }
            try await self.reconfigure(request.configuration)
            return ReconfigureRequest.Reply()
        }
    }

    /// The status of the tunnel.
    public var status: StatusRequest.Reply {
        guard let run else {
            return StatusRequest.Reply(state: .stopped, peers: [], drops: [:], pingsSent: 0, pingReplies: 0)
        }
        let peers = run.plane.peers().map { peer in
            PeerStatus(
                publicKey: peer.publicKey.base64, endpoint: peer.endpoint?.description,
                lastHandshakeAge: peer.handshakeAge.map { $0 / .seconds(1) }, receivedBytes: peer.receivedBytes,
                sentBytes: peer.sentBytes, isSilent: run.isSilent(peer.publicKey, run.elapsed.now))
        }
        let (pings, replies) = run.prober.counts
        return StatusRequest.Reply(
            state: run.lifecycle.state, publicKey: run.plane.publicKey?.base64, listenPort: run.plane.listenPort,
            peers: peers,
            drops: run.plane.drops(), pingsSent: pings, pingReplies: replies)
    }
}
