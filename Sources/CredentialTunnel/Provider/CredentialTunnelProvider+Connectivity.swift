// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO

// The driver of the connectivity monitor. The protocol itself detects a lost session; the monitor pings, opens new
// sockets, resolves the server's name again, and ends a dead tunnel, as the configuration specifies.
extension CredentialTunnelProvider {
    /// Checks whether packets arrive, until the tunnel ends.
    func checkConnectivity() async {
        guard let first = run else { return }
        let monitor = ConnectivityMonitor(options: first.monitor.options, baseline: first.observe())
        run?.monitor = monitor
        while let run, run.monitor.phase != .ended {
            do { try await run.context.clock.sleep(for: run.monitor.nextInterval) } catch { return }
            guard !Task.isCancelled, let present = self.run else { return }
            let observation = present.observe()
            if present.isOffline {
                self.run?.monitor.restart(from: observation, isReasserting: true)
            } else {
                for action in self.run?.monitor.tick(observation) ?? [] { perform(action) }
            }
        }
    }

    private func perform(_ action: ConnectivityMonitor.Action) {
        guard let run else { return }
        switch action {
        case .probe: probe(run)
        case .heal(let step):
            // Without a session, logins are repeated anyway.
            guard run.device.isEstablished else { return }
            run.context.logger.warning("no data arrives through the tunnel, healing: \(step)")
            heal(step, run)
        case .reasserting(true): suspectConnection()
        case .reasserting(false): if run.device.isEstablished { confirmConnection() }
        case .giveUp:
            run.context.cancel(.connectivityLost(to: run.configuration.serverHost, run.configuration.connectivity))
        }
    }

    /// Sends a ping through the tunnel, or renews the keys if no ping can be sent.
    private func probe(_ run: Run) {
        var isSent = false
        for (packet, _) in run.prober?.packets() ?? [] where run.device.submit(packet) { isSent = true }
        if !isSent { run.device.renew() }
    }

    private func heal(_ step: ConnectivityMonitor.Step, _ run: Run) {
        switch step {
        case .rebind:
            do throws(TunnelIOError) { try run.device.rebind() } catch {
                run.context.logger.error("cannot open new UDP sockets, will retry: \(error)")
            }
        // A login resolves the server's name again.
        case .resolve: logInAgain()
        case .handshake: run.device.renew()
        }
    }

    /// Pings from the assigned addresses from now on.
    func adoptProber(for assignment: Body.Assignment) {
        guard let run else { return }
        let (target, sources) = (run.configuration.connectivity.pingAddress, assignment.addresses.map(\.address))
        if run.prober?.isFor(target: target, sources: sources, servers: assignment.dns) == true { return }
        let prober = TunnelProber(target: target, sources: sources, servers: assignment.dns)
        self.run?.prober = prober
        run.tap?.setFilter { prober.consume($0) }
    }

    /// Returns the interface for the lanes. Replies to pings do not reach the system.
    func interface(of run: Run) throws(TunnelError) -> any TunDevice {
        let device = try run.context.packetFlow.leaseDevice()
        guard run.configuration.connectivity.pingAddress != nil else { return device }
        let tap = TapTun(device, filter: true)
        self.run?.tap = tap
        if let prober = self.run?.prober { tap.setFilter { prober.consume($0) } }
        return tap
    }
}

extension CredentialTunnelProvider.Run {
    /// Observes the session. Replies to pings are counted once.
    fileprivate func observe() -> ConnectivityMonitor.Observation {
        let proof = device.proof
        return ConnectivityMonitor.Observation(
            now: elapsed.now, receivedBytes: proof.count, pingReplied: prober?.takeReply() ?? false,
            isOwed: proof.isOwed)
    }
}
