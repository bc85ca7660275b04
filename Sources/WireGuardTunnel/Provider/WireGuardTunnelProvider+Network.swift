// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import WireGuardCore

// Sleep, paths and endpoints.
extension WireGuardTunnelProvider {
    /// Stops keepalives, probes and lookups.
    public func sleep() async {
        handle(.sleep)
    }

    /// Binds new sockets, resolves the peers again and requests a new session.
    public func wake() async {
        handle(.wake)
    }

    /// Pauses the tunnel without a network, and moves it to a new network.
    public func pathChanged(_ path: NetworkPath) async {
        guard let run else { return }
        self.run?.path = path
        let (logger, pause) = (run.context.logger, run.lifecycle.pause)
        if run.configuration.hasNoWay(on: path, run.places) {
            if !pause.contains(.offline) { logger.info("no network: paused") }
            handle(.path(.none))
        } else if path.isSameWay(as: run.path) {
            handle(.path(.same))
        } else {
            if pause.isEmpty { logger.info("another network: new sockets") }
            handle(.path(.other))
        }
    }

    /// Turns keepalives off for a pause, and restores them afterwards, even if another tool set them.
    func setKeepalives(isOn: Bool) {
        guard var run else { return }
        var update = UAPIDeviceUpdate()
        for peer in run.plane.peers() where (peer.persistentKeepalive == 0) == isOn {
            var change = UAPIPeerUpdate(publicKey: peer.publicKey)
            change.updateOnly = true
            if isOn {
                guard let interval = run.pausedKeepalives[peer.publicKey] else { continue }
                change.persistentKeepalive = interval
            } else {
                run.pausedKeepalives[peer.publicKey] = peer.persistentKeepalive
                change.persistentKeepalive = 0
            }
            update.peers.append(change)
        }
        if isOn { run.pausedKeepalives = [:] }
        self.run = run
        guard !update.peers.isEmpty else { return }
        do throws(TunnelError) { try run.plane.apply(update) } catch {
            run.context.logger.error("cannot change keepalives: \(error)")
        }
    }

    // MARK: - Endpoints

    /// Resolves the endpoints of the peers that have one; the address to try first comes first.
    /// - Throws: the first failure, if there are endpoints and none resolves.
    func resolve(
        _ configuration: WireGuardTunnelConfiguration, on path: NetworkPath, _ context: ProviderContext
    ) async throws(TunnelError) -> [PublicKey: [Endpoint]] {
        let found = await candidates(configuration, on: path, context)
        var failures: [TunnelError] = []
        var endpoints: [PublicKey: [Endpoint]] = [:]
        for (key, result) in found {
            switch result {
            case .success(let candidates): endpoints[key] = candidates
            case .failure(let error): failures.append(error)
            }
        }
        // The caller logs the error that is thrown.
        let failure = endpoints.isEmpty ? failures.first : nil
        for error in failures.dropFirst(failure == nil ? 0 : 1) { context.logger.warning("\(error)") }
        if let failure { throw failure }
        return endpoints
    }

    /// Returns the means to look up names outside the tunnel, for use when the system's own lookups would enter the
    /// tunnel or be blocked. This is the case after the tunnel's settings are applied. Under the blocking policies it
    /// is used from the start, because they may still block traffic that an earlier tunnel carried.
    private func bypass(
        _ configuration: WireGuardTunnelConfiguration, _ context: ProviderContext
    ) async -> TunnelBypass? {
        let policy = max(configuration.leakPolicy, context.leakPolicy)
        guard let mark = context.socketMark, run != nil || policy.blocksAfterFailure else { return nil }
        return TunnelBypass(
            network: environment.network, mark: mark, servers: await context.outsideNameServers())
    }

    private func candidates(
        _ configuration: WireGuardTunnelConfiguration, on path: NetworkPath, _ context: ProviderContext
    ) async -> [(PublicKey, Result<[Endpoint], TunnelError>)] {
        let lookup = EndpointLookup(
            resolver: environment.resolver, clock: context.clock,
            timeout: .seconds(configuration.resolutionTimeout), bypass: await bypass(configuration, context))
        let peers = configuration.peers.compactMap { peer in peer.endpoint.map { (peer.publicKey, $0) } }
        return await withTaskGroup(of: Candidates.self) { group in
            for (index, peer) in peers.enumerated() {
                group.addTask { Candidates(index: index, result: await lookup.result(of: peer.1, on: path)) }
            }
            var results: [Candidates] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.index < $1.index }.map { (peers[$0.index].0, $0.result) }
        }
    }

    /// Resolves the peers again in the background. A later call replaces an earlier one.
    /// - Parameter rotating: the only peers to resolve; they also move to their next address if they are at a known one. If
    ///   `nil`, all peers are resolved, and they stay.
    func refreshEndpoints(rotating: Set<PublicKey>? = nil) {
        refreshing?.cancel()
        guard run != nil else { return }
        refreshing = Task { await self.refresh(rotating) }
    }

    /// Failed lookups are repeated for half a minute, because a new network often has no DNS yet. Lookups for a peer without
    /// a known address are repeated without end.
    private func refresh(_ rotating: Set<PublicKey>?) async {
        var (isFirst, delays) = (true, [1, 2, 4, 8, 16].makeIterator())
        while let run, !run.lifecycle.isPaused {
            let all = await candidates(run.configuration, on: run.path, run.context)
            let found = all.filter { rotating?.contains($0.0) ?? true }
            guard !Task.isCancelled, current(run)?.lifecycle.isPaused == false else { return }
            await announce(found.flatMap { (try? $0.1.get()) ?? [] }.map(\.address))
            guard !Task.isCancelled, let now = current(run), !now.lifecycle.isPaused else { return }
            // The configuration or the path may have changed during the lookup.
            guard now.configuration == run.configuration, now.path == run.path else { continue }
            if adopt(found, isRotating: isFirst && rotating != nil, now) { return }
            isFirst = false
            guard let delay = delays.next() ?? (hasUnplacedPeers(now) ? 30 : nil) else { return }
            do { try await run.context.clock.sleep(for: .seconds(delay)) } catch { return }
        }
    }

    /// Reports peers that are, or will be, in a network that is routed into the tunnel to the host, because their
    /// packets must bypass the tunnel. Hosts whose sockets need no mark handle this themselves.
    func announce(_ addresses: some Sequence<IPAddress>) async {
        guard let run, run.context.socketMark != nil, !run.lifecycle.isReconfiguring else { return }
        let new = Set(addresses).subtracting(run.checkedAddresses)
        self.run?.newAddresses = []
        guard !new.isEmpty else { return }
        // Limit the list, and check the addresses of a peer that roams for a long time again.
        if run.checkedAddresses.count > Self.maxCheckedAddresses { self.run?.checkedAddresses = run.servers }
        self.run?.checkedAddresses.formUnion(new)
        var settings = run.configuration.settings(leakPolicy: run.context.leakPolicy, servers: run.servers)
        let routes = settings.routes(holding: new).subtracting(settings.routes(holding: run.servers))
        guard !routes.isEmpty else { return }
        let servers = run.servers.union(new.filter { address in routes.contains { $0.contains(address) } })
        settings = run.configuration.settings(leakPolicy: run.context.leakPolicy, servers: servers)
        run.context.logger.info(
            "the server is in \(routes.map(\.description).sorted().joined(separator: ", ")), which is routed into the tunnel"
        )
        do throws(TunnelError) {
            try await run.context.apply(settings)
            guard current(run)?.configuration == run.configuration else { return }
            self.run?.servers = servers
        } catch {
            run.context.logger.error("cannot route the server's packets outside the tunnel: \(error)")
            if current(run) != nil { self.run?.checkedAddresses.subtract(new) }
        }
    }

    private static let maxCheckedAddresses = 4096

    /// Whether a peer with a host name as endpoint has no address yet. A peer that was removed from the device does not
    /// count.
    private func hasUnplacedPeers(_ run: Run) -> Bool {
        let unplaced = Set(run.plane.peers().filter { $0.endpoint == nil }.map(\.publicKey))
        return run.configuration.peers.contains { $0.endpoint != nil && unplaced.contains($0.publicKey) }
    }

    /// Moves peers to their resolved addresses; returns whether every lookup succeeded.
    private func adopt(
        _ found: [(PublicKey, Result<[Endpoint], TunnelError>)], isRotating: Bool, _ run: Run
    ) -> Bool {
        var present: [PublicKey: Endpoint] = [:]
        for peer in run.plane.peers() { present[peer.publicKey] = peer.endpoint }
        var update = UAPIDeviceUpdate()
        var isComplete = true
        for (key, result) in found {
            switch result {
            case .failure(let error):
                isComplete = false
                run.context.logger.warning("\(error)")
            case .success(let candidates):
                guard let next = Self.next(of: candidates, after: present[key], rotating: isRotating) else { continue }
                var change = UAPIPeerUpdate(publicKey: key)
                change.updateOnly = true
                change.endpoint = next
                update.peers.append(change)
            }
        }
        move(update.peers, run)
        return isComplete
    }

    /// Moves peers to other endpoints, and requests a handshake there.
    func move(_ peers: [UAPIPeerUpdate], _ run: Run) {
        guard !peers.isEmpty else { return }
        var update = UAPIDeviceUpdate()
        update.peers = peers
        do throws(TunnelError) { try run.plane.apply(update) } catch {
            run.context.logger.error("cannot change endpoints: \(error)")
        }
        for change in peers {
            run.context.logger.info("the peer's endpoint is now \(change.endpoint?.description ?? "none")")
            run.plane.requestHandshake(with: change.publicKey)
        }
    }

    /// Returns the endpoint to move to, or `nil` to stay.
    static func next(of candidates: [Endpoint], after present: Endpoint?, rotating: Bool) -> Endpoint? {
        guard let present, let index = candidates.firstIndex(of: present) else { return candidates.first }
        guard rotating, candidates.count > 1 else { return nil }
        return candidates[(index + 1) % candidates.count]
    }
}

/// The possible addresses of a peer. It is a struct, because optimised builds lose the index of a tuple that a child
/// task returns if the task's body catches typed errors.
private struct Candidates: Sendable {
    var index: Int
    var result: Result<[Endpoint], TunnelError>
}

extension EndpointLookup {
    /// Returns the endpoints of an address, or the error of the lookup.
    fileprivate func result(of address: EndpointAddress, on path: NetworkPath) async -> Result<[Endpoint], TunnelError>
    {
        do throws(TunnelError) {
            return .success(try await endpoints(of: address, on: path))
        } catch {
            return .failure(error)
        }
    }
}
