// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelProvider {
    /// Takes on another configuration while the tunnel runs, `reasserting` meanwhile. Peers that are in both keep their
    /// sessions; those that are not in the new one go, and so does a port that it does not name. Without a network, names
    /// are looked up once there is one.
    /// - Throws: as ``start(_:context:)``, and `.notRunning`. Then the tunnel goes on as it was.
    public func reconfigure(_ configuration: WireGuardTunnelConfiguration) async throws(TunnelError) {
        guard let run, run.isStarted, !run.isReconfiguring else {
            throw TunnelError(.notRunning, "the tunnel is not up, or is being reconfigured", fix: "try again later")
        }
        try Self.check(configuration)
        self.run?.isReconfiguring = true
        setReasserting(true)
        defer { finishReconfiguring() }
        let secrets = try await TunnelSecrets.read(for: configuration, from: run.context)
        var endpoints: [PublicKey: Endpoint] = [:]
        if !run.isOffline {
            endpoints = try await resolve(configuration, on: run.path, run.context).compactMapValues(\.first)
        }
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
        adopt(configuration, insteadOf: run)
    }

    /// What follows from another configuration that the device has by now. Meanwhile the network may have changed, or gone.
    private func adopt(_ configuration: WireGuardTunnelConfiguration, insteadOf before: Run) {
        guard var run else { return }
        run.configuration = configuration
        run.isListening = !configuration.hasEndpoints
        run.bytesBeforeListening = run.receivedBytes
        // Replies to what it has sent are still its own.
        if !run.prober.isFor(configuration) { run.prober = Self.makeProber(configuration) }
        run.watch.forget()
        let observation = observe(&run)
        run.monitor = Self.makeMonitor(configuration, observation)
        self.run = run
        adoptProber()
        if run.isPaused { return setKeepalives(isOn: false) }
        if before.isOffline || run.path != before.path { refreshEndpoints() }
        requestHandshakes(run)
    }

    private func finishReconfiguring() {
        guard self.run != nil else { return }
        self.run?.isReconfiguring = false
        // Reasserting ends with proof.
        if run?.isPaused == false { watchAnew() }
    }
}
