// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelProvider {
    /// Applies another configuration while the tunnel runs, `reasserting` until done. Peers in both configurations keep
    /// their sessions, unless the private key changes; peers that are only in the old one are removed, and so is a
    /// listen port that the new one does not name.
    /// Settings that are equal in both stay unchanged, even if another process has changed them on the device. Without a
    /// network, names are resolved once there is one.
    /// - Throws: the errors of ``start(_:context:)``, and `.notRunning`. The tunnel then continues unchanged, or ends if its
    ///   settings cannot be restored.
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
        // Peers that stay keep their current addresses.
        let servers = Set(endpoints.values.joined().map(\.address)).union(run.places.values.joined())
            .union(configuration.literalServers)
        do throws(TunnelError) {
            try await run.context.apply(configuration.settings(leakPolicy: run.context.leakPolicy, servers: servers))
        } catch {
            // The new settings may be in effect, or may come into effect later.
            if error.code == .settingsTimedOut || error.code == .closed { await restoreSettings(of: run) }
            throw error
        }
        do throws(TunnelError) {
            try run.plane.apply(
                configuration.tunnel.deviceChange(
                    from: run.configuration.tunnel, endpoints: endpoints.compactMapValues(\.first)))
        } catch {
            await restoreSettings(of: run)
            throw error
        }
        guard current(run) != nil else { throw TunnelError(.notRunning, "the tunnel has ended") }
        self.run?.servers = servers
        self.run?.checkedAddresses = servers
        adopt(configuration, insteadOf: run)
    }

    /// Restores the settings that match the device's unchanged configuration, even if the caller's task is cancelled. Ends
    /// the tunnel if that fails.
    private func restoreSettings(of run: Run) async {
        let context = run.context
        let settings = run.configuration.settings(leakPolicy: context.leakPolicy, servers: run.servers)
        let failure = await Task { () async -> TunnelError? in
            do throws(TunnelError) { try await context.apply(settings) } catch { return error }
            return nil
        }.value
        if let failure { context.cancel(failure) }
    }

    /// Updates the run after the device has applied another configuration. The network may have changed or been lost since
    /// then.
    private func adopt(_ configuration: WireGuardTunnelConfiguration, insteadOf before: Run) {
        guard var run else { return }
        let kept = configuration.tunnel.unchangedPeers(since: before.configuration.tunnel)
        // All other peers have the keepalives of the configuration.
        let named = Set(configuration.peers.map(\.publicKey)).union(before.configuration.peers.map(\.publicKey))
        run.pausedKeepalives = run.pausedKeepalives.filter { kept.contains($0.key) || !named.contains($0.key) }
        run.configuration = configuration
        // A kept prober still matches replies to the packets it has sent.
        let isSame = run.prober.isFor(
            target: configuration.connectivity.pingAddress, sources: configuration.addresses.map(\.address),
            servers: configuration.dns?.servers ?? [])
        if !isSame { run.prober = Self.makeProber(configuration) }
        run.watch.forget()
        run.plane.forgetPackets()
        self.run = run
        adoptProber()
        let hasMoved = before.lifecycle.pause.contains(.offline) || run.path != before.path
        handle(
            .reconfigured(configuration.connectivity, hasEndpoints: configuration.hasEndpoints, hasMoved: hasMoved))
    }
}
