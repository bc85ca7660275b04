// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import WireGuardCore

// The monitor's driver: it observes, and does what the monitor says.
extension WireGuardTunnelProvider {
    /// Probes the tunnel from here on until it is proven.
    /// - Parameter isReasserting: whether it is said to carry nothing until then.
    func restartMonitor(isReasserting: Bool) {
        guard var run else { return }
        run.monitor.restart(from: observe(run), isReasserting: isReasserting)
        self.run = run
        startDriver()
    }

    func startDriver() {
        driver?.cancel()
        driver = Task { await self.drive() }
    }

    private func drive() async {
        while !Task.isCancelled, let run, !run.isPaused {
            // Without a monitor, only the end of a pause is waited for.
            guard run.configuration.connectivity.isEnabled || run.monitor.isReasserting || run.isListening else {
                return
            }
            let interval: Duration = run.isListening ? .milliseconds(250) : run.monitor.nextInterval
            do { try await run.context.clock.sleep(for: interval) } catch { return }
            if Task.isCancelled { return }
            look()
        }
    }

    private func look() {
        guard var run, !run.isPaused, !run.isReconfiguring else { return }
        if run.isListening {
            guard run.plane.peers().contains(where: { $0.handshakeAge != nil }) else { return }
            // Now there is somebody; whether he stays is his business.
            self.run?.isListening = false
            run.context.setReasserting(false)
            driver?.cancel()
            return
        }
        let actions = run.monitor.tick(observe(run))
        self.run = run
        for action in actions { perform(action, run) }
    }

    /// What is seen now. Replies to pings are counted once.
    func observe(_ run: Run) -> ConnectivityMonitor.Observation {
        var (bytes, age): (UInt64, Duration?) = (0, nil)
        for peer in run.plane.peers() {
            bytes &+= peer.receivedBytes
            if let new = peer.handshakeAge { age = min(age ?? new, new) }
        }
        return ConnectivityMonitor.Observation(
            now: run.elapsed.now, receivedBytes: bytes, handshakeAge: age, pingReplied: run.prober.takeReply())
    }

    private func perform(_ action: ConnectivityMonitor.Action, _ run: Run) {
        let logger = run.context.logger
        switch action {
        case .probe: probe(run)
        case .heal(let step):
            logger.warning("nothing comes through the tunnel: healing, \(step)")
            heal(step, run)
        case .reasserting(let isOn):
            if !isOn { logger.info("the tunnel carries packets again") }
            run.context.setReasserting(isOn)
        case .giveUp:
            run.context.cancel(
                TunnelError(
                    .connectivityLost,
                    "nothing comes through the tunnel to \(run.configuration.remoteAddress), and healing "
                        + "did not help", fix: "check the server and the network, and start again"))
        }
    }

    /// Sends a ping through the tunnel, or asks for a handshake where that cannot be.
    func probe(_ run: Run) {
        var isSent = false
        for (packet, destination) in run.prober.packets() where run.plane.submit(packet, to: destination) {
            isSent = true
        }
        if !isSent { requestHandshakes(run) }
    }

    private func heal(_ step: ConnectivityMonitor.Step, _ run: Run) {
        switch step {
        case .rebind: rebind(run)
        case .resolve: refreshEndpoints(rotating: true)
        case .handshake: requestHandshakes(run)
        }
    }

    /// New sockets. Where that fails, healing tries again.
    func rebind(_ run: Run) {
        do throws(TunnelError) { try run.plane.rebind() } catch {
            run.context.logger.error("no new sockets: \(error)")
        }
    }
}
