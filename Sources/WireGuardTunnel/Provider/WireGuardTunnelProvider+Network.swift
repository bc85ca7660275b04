// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import PacketTunnel
import WireGuardCore

// Sleep, paths and endpoints.
extension WireGuardTunnelProvider {
    /// Goes quiet: keepalives, probes and lookups stop.
    public func sleep() async {
        guard let run, !run.isAsleep else { return }
        self.run?.isAsleep = true
        if !run.isOffline { quiesce() }
    }

    /// Binds new sockets, resolves the peers again and asks for a new session.
    public func wake() async {
        guard run?.isAsleep == true else { return }
        run?.isAsleep = false
        if run?.isPaused == false { resume(isReasserting: run?.monitor.isReasserting == true) }
    }

    /// Pauses without a network, and follows to another one.
    public func pathChanged(_ path: NetworkPath) async {
        guard let run else { return }
        self.run?.path = path
        if path.status == .unsatisfied {
            guard !run.isOffline else { return }
            self.run?.isOffline = true
            run.context.logger.info("no network: paused")
            run.context.setReasserting(true)
            if !run.isAsleep { quiesce() }
        } else if run.isOffline {
            self.run?.isOffline = false
            if !run.isAsleep { resume(isReasserting: true) }
        } else if !run.isAsleep, !path.isSameWay(as: run.path) {
            run.context.logger.info("another network: new sockets")
            resume(isReasserting: run.monitor.isReasserting)
        }
    }

    private func quiesce() {
        driver?.cancel()
        refreshing?.cancel()
        setKeepalives(isOn: false)
    }

    private func resume(isReasserting: Bool) {
        guard let run else { return }
        rebind(run)
        setKeepalives(isOn: true)
        if run.isListening { return startDriver() }
        refreshEndpoints(rotating: false)
        requestHandshakes(run)
        restartMonitor(isReasserting: isReasserting)
    }

    private func setKeepalives(isOn: Bool) {
        guard let run else { return }
        var update = UAPIDeviceUpdate()
        for parsed in run.configuration.parsedPeers where parsed.peer.persistentKeepalive != 0 {
            var change = UAPIPeerUpdate(publicKey: parsed.key)
            change.updateOnly = true
            change.persistentKeepalive = isOn ? parsed.peer.persistentKeepalive : 0
            update.peers.append(change)
        }
        guard !update.peers.isEmpty else { return }
        do throws(TunnelError) { try run.plane.apply(update) } catch {
            run.context.logger.error("keepalives: \(error)")
        }
    }

    // MARK: - Endpoints

    /// Where the peers are, for those that have an endpoint that resolves.
    /// - Throws: the first failure, when there are endpoints and none resolves.
    func resolve(
        _ configuration: WireGuardTunnelConfiguration, on path: NetworkPath, _ context: ProviderContext
    ) async throws(TunnelError) -> [PublicKey: Endpoint] {
        let found = await candidates(configuration, on: path, context)
        var failure: TunnelError?
        var endpoints: [PublicKey: Endpoint] = [:]
        for (key, result) in found {
            switch result {
            case .success(let candidates): endpoints[key] = candidates.first
            case .failure(let error):
                context.logger.warning("\(error)")
                failure = failure ?? error
            }
        }
        if endpoints.isEmpty, let failure { throw failure }
        return endpoints
    }

    /// The way past the tunnel for lookups, where the system's own would go into it or be held back: once the tunnel's settings
    /// are in force, and from the start under the policies that block, which may still hold back what an earlier tunnel carried.
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
        let peers = configuration.parsedPeers.compactMap { parsed in parsed.address.map { (parsed.key, $0) } }
        return await withTaskGroup(of: (Int, Result<[Endpoint], TunnelError>).self) { group in
            for (index, peer) in peers.enumerated() {
                group.addTask {
                    do throws(TunnelError) {
                        return (index, .success(try await lookup.endpoints(of: peer.1, on: path)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var results: [(Int, Result<[Endpoint], TunnelError>)] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map { (peers[$0.0].0, $0.1) }
        }
    }

    /// Resolves the peers again, on the side: nothing waits for it, and a later one takes its place.
    /// - Parameter rotating: whether a peer that is where one of its addresses is moves to its next one.
    func refreshEndpoints(rotating: Bool) {
        refreshing?.cancel()
        guard run != nil else { return }
        refreshing = Task { await self.refresh(rotating: rotating) }
    }

    private func refresh(rotating: Bool) async {
        guard let run else { return }
        let found = await candidates(run.configuration, on: run.path, run.context)
        guard !Task.isCancelled, let now = self.run, !now.isPaused else { return }
        var present: [PublicKey: Endpoint] = [:]
        for peer in now.plane.peers() { present[peer.publicKey] = peer.endpoint }
        var update = UAPIDeviceUpdate()
        for (key, result) in found {
            switch result {
            case .failure(let error): now.context.logger.warning("\(error)")
            case .success(let candidates):
                guard let next = Self.next(of: candidates, after: present[key], rotating: rotating) else { continue }
                var change = UAPIPeerUpdate(publicKey: key)
                change.updateOnly = true
                change.endpoint = next
                update.peers.append(change)
            }
        }
        guard !update.peers.isEmpty else { return }
        do throws(TunnelError) { try now.plane.apply(update) } catch { now.context.logger.error("endpoints: \(error)") }
        for change in update.peers {
            now.context.logger.info("the peer's endpoint is now \(change.endpoint?.description ?? "none")")
            now.plane.requestHandshake(with: change.publicKey)
        }
    }

    /// The endpoint to move to; nil to stay.
    static func next(of candidates: [Endpoint], after present: Endpoint?, rotating: Bool) -> Endpoint? {
        guard let present, let index = candidates.firstIndex(of: present) else { return candidates.first }
        guard rotating, candidates.count > 1 else { return nil }
        return candidates[(index + 1) % candidates.count]
    }
}

extension NetworkPath {
    /// Whether packets leave over the same interfaces, network and families as on `other`.
    func isSameWay(as other: NetworkPath) -> Bool {
        interfaces == other.interfaces && ssid == other.ssid && supportsIPv4 == other.supportsIPv4
            && supportsIPv6 == other.supportsIPv6
    }
}
