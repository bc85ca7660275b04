// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelProvider {
    /// Takes on another configuration while the tunnel runs, `reasserting` meanwhile. Peers that are in both keep their
    /// sessions; those that are not in the new one go, and so does a port that it does not name.
    /// - Throws: as ``start(_:context:)``, and `.notRunning`. Then the tunnel goes on as it was.
    public func reconfigure(_ configuration: WireGuardTunnelConfiguration) async throws(TunnelError) {
        guard let run, !run.isReconfiguring else {
            throw TunnelError(.notRunning, "the tunnel is not up, or is being reconfigured", fix: "try again later")
        }
        try Self.check(configuration)
        self.run?.isReconfiguring = true
        run.context.setReasserting(true)
        defer { finishReconfiguring() }
        let secrets = try await TunnelSecrets.read(for: configuration, from: run.context)
        let endpoints = try await resolve(configuration, on: run.path, run.context)
        try await run.context.apply(configuration.settings(leakPolicy: run.context.leakPolicy))
        do throws(TunnelError) {
            try run.plane.apply(
                configuration.deviceUpdate(
                    secrets: secrets, endpoints: endpoints, mark: run.context.socketMark,
                    replacing: run.configuration.parsedPeers.map(\.key)))
        } catch {
            // Settings that fit what the device still does.
            try await run.context.apply(run.configuration.settings(leakPolicy: run.context.leakPolicy))
            throw error
        }
        guard self.run != nil else { throw TunnelError(.notRunning, "the tunnel has ended") }
        self.run?.configuration = configuration
        self.run?.isListening = endpoints.isEmpty
        self.run?.prober = Self.makeProber(configuration)
        adoptProber()
        if let run = self.run {
            self.run?.monitor = Self.makeMonitor(configuration, run.context, observe(run))
            requestHandshakes(run)
        }
    }

    private func finishReconfiguring() {
        guard self.run != nil else { return }
        self.run?.isReconfiguring = false
        guard let run, !run.isPaused else { return }
        // Reasserting ends with proof.
        if run.isListening { startDriver() } else { restartMonitor(isReasserting: true) }
    }
}
