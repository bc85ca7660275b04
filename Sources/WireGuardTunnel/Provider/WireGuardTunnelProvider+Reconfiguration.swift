// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelProvider {
    /// Takes on another configuration while the tunnel runs, `reasserting` meanwhile. Peers that are in both keep their
    /// sessions; those that are not in the new one go, and so does a port that it does not name any more. What both say alike stays
    /// as it is, also where somebody else has changed it. Without a network, names are looked up once there is one.
    /// - Throws: as ``start(_:context:)``, and `.notRunning`. Then the tunnel goes on as it was.
    public func reconfigure(_ configuration: WireGuardTunnelConfiguration) async throws(TunnelError) {
        guard let run, run.lifecycle.canReconfigure else {
            throw TunnelError(.notRunning, "the tunnel is not up, or is being reconfigured", fix: "try again later")
        }
        try Self.check(configuration)
        handle(.reconfigurationStarted)
        do throws(TunnelError) {
            try await replaceConfiguration(of: run, with: configuration)
        } catch {
            if current(run) != nil { handle(.reconfigurationFailed) }
            throw error
        }
    }

    private func replaceConfiguration(
        of run: Run, with configuration: WireGuardTunnelConfiguration
    ) async throws(TunnelError) {
        let configuration = try await configuration.completed(by: run.context)
        var endpoints: [PublicKey: [Endpoint]] = [:]
        if !run.lifecycle.pause.contains(.offline) {
            endpoints = try await resolve(configuration, on: run.path, run.context)
        }
        // Those that stay are where they are now.
        let servers = Set(endpoints.values.joined().map(\.address)).union(run.places.values.joined())
            .union(configuration.literalServers)
        try await run.context.apply(configuration.settings(leakPolicy: run.context.leakPolicy, servers: servers))
        do throws(TunnelError) {
            try run.plane.apply(
                configuration.tunnel.deviceChange(
                    from: run.configuration.tunnel, endpoints: endpoints.compactMapValues(\.first)))
        } catch {
            // Settings that fit what the device still does.
            try await run.context.apply(
                run.configuration.settings(leakPolicy: run.context.leakPolicy, servers: run.servers))
            throw error
        }
        guard current(run) != nil else { throw TunnelError(.notRunning, "the tunnel has ended") }
        self.run?.servers = servers
        self.run?.judgedAddresses = servers
        adopt(configuration, insteadOf: run)
    }

    /// What follows from another configuration that the device has by now. Meanwhile the network may have changed, or gone.
    private func adopt(_ configuration: WireGuardTunnelConfiguration, insteadOf before: Run) {
        guard var run else { return }
        let kept = configuration.tunnel.unchangedPeers(since: before.configuration.tunnel)
        // The others have those that the configuration says.
        let named = Set(configuration.peers.map(\.publicKey)).union(before.configuration.peers.map(\.publicKey))
        run.pausedKeepalives = run.pausedKeepalives.filter { kept.contains($0.key) || !named.contains($0.key) }
        run.configuration = configuration
        // Replies to what it has sent are still its own.
        if !run.prober.isFor(configuration) { run.prober = Self.makeProber(configuration) }
        run.watch.forget()
        run.plane.forgetPackets()
        self.run = run
        adoptProber()
        let hasMoved = before.lifecycle.pause.contains(.offline) || run.path != before.path
        handle(
            .reconfigured(configuration.connectivity, hasEndpoints: configuration.hasEndpoints, hasMoved: hasMoved))
    }
}
