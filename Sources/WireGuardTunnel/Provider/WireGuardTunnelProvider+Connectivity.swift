// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import WireGuardCore

// The monitor's driver: it observes, and does what the monitor says.
extension WireGuardTunnelProvider {
    /// Says whether the tunnel carries nothing for the present.
    func setReasserting(_ isOn: Bool) {
        run?.isReasserting = isOn
        run?.context.setReasserting(isOn)
    }

    /// Probes the tunnel from here on until it is proven; one in which only peers begin waits for one of them, where it is
    /// said to carry nothing.
    func watchAnew() {
        guard var run else { return }
        run.watch.forget()
        if run.configuration.hasEndpoints {
            let observation = observe(&run)
            run.monitor.restart(from: observation, isReasserting: run.isReasserting)
        } else if run.isReasserting, !run.isListening {
            run.isListening = true
            run.bytesBeforeListening = run.receivedBytes
        }
        self.run = run
        startDriver()
    }

    /// Whether an IP packet has come out of the tunnel since the last start or reconfiguration. A handshake alone does
    /// not count.
    package var hasCarriedPackets: Bool { run?.plane.hasDelivered ?? false }

    func startDriver() {
        driver?.cancel()
        driver = Task { await self.drive() }
    }

    private func drive() async {
        run?.listeningInterval = Run.firstListeningInterval
        while !Task.isCancelled, let run, !run.isPaused {
            // Without a monitor, only the end of a pause is waited for. A monitor that gave up does nothing.
            guard run.monitor.phase != .ended, run.isListening || run.configuration.hasEndpoints,
                run.configuration.connectivity.isEnabled || run.monitor.isReasserting || run.isListening
            else { return }
            let interval = run.isListening ? run.listeningInterval : run.monitor.nextInterval
            do { try await run.context.clock.sleep(for: interval) } catch { return }
            if Task.isCancelled { return }
            look()
            if let addresses = self.run?.newAddresses, !addresses.isEmpty { await announce(addresses) }
        }
    }

    private func look() {
        guard var run, !run.isPaused, !run.isReconfiguring else { return }
        if run.isListening {
            // Peers come soon, or at any time.
            self.run?.listeningInterval = min(run.listeningInterval * 1.25, .seconds(5))
            // An initiation alone may be a repetition: the first packet of its session proves it.
            guard run.receivedBytes != run.bytesBeforeListening,
                run.plane.peers().contains(where: { $0.handshakeAge != nil })
            else { return }
            // Now there is somebody; whether he stays is his business.
            self.run?.isListening = false
            setReasserting(false)
            driver?.cancel()
            return
        }
        let observation = observe(&run)
        let actions = run.monitor.tick(observation)
        self.run = run
        for action in actions { perform(action, run) }
        healSilentPeers()
    }

    /// What is seen now. Replies to pings are counted once.
    func observe(_ run: inout Run) -> ConnectivityMonitor.Observation {
        var (bytes, age): (UInt64, Duration?) = (0, nil)
        let (peers, now) = (run.plane.peers(), run.elapsed.now)
        for peer in peers {
            if let address = peer.endpoint?.address, !run.judgedAddresses.contains(address) {
                run.newAddresses.insert(address)
            }
            bytes &+= peer.receivedBytes
            if let new = peer.handshakeAge { age = min(age ?? new, new) }
        }
        var keepalives: [PublicKey: UInt16] = [:]
        for peer in peers { keepalives[peer.publicKey] = peer.persistentKeepalive }
        run.watch.look(at: peers, now: now) { keepalives[$0] ?? 0 }
        let isGatewaySilent = run.parsedPeers.contains { $0.isGateway && run.isSilent($0.key, now) }
        return ConnectivityMonitor.Observation(
            now: now, receivedBytes: bytes, handshakeAge: age, pingReplied: run.prober.takeReply(),
            isGatewaySilent: isGatewaySilent, isOwed: run.watch.isOwed)
    }

    /// Peers that are silent while the tunnel lives are asked for again by themselves: their names, their other addresses,
    /// a handshake. The tunnel goes on meanwhile.
    private func healSilentPeers() {
        guard let run, !run.monitor.isReasserting else { return }
        let now = run.elapsed.now
        let silent = run.parsedPeers.filter { $0.address != nil && run.isSilent($0.key, now) }
        // As slow as healing that has not helped for long.
        let interval = Duration.seconds(run.configuration.connectivity.healingInterval * 8)
        guard !silent.isEmpty, run.peersHealedAt.map({ now - $0 >= interval }) ?? true else { return }
        self.run?.peersHealedAt = now
        run.context.logger.warning("nothing comes from \(silent.count) of the peers: asking for them again")
        refreshEndpoints(rotating: Set(silent.map(\.key)))
        for peer in silent { run.plane.requestHandshake(with: peer.key) }
    }

    private func perform(_ action: ConnectivityMonitor.Action, _ run: Run) {
        let logger = run.context.logger
        switch action {
        case .probe: probe(run)
        case .heal(let step):
            logger.warning("nothing comes through the tunnel: healing, \(step)")
            heal(step, run)
        case .reasserting(let isOn):
            if !isOn {
                logger.info(run.isProven ? "the tunnel carries packets again" : "the tunnel carries packets")
                self.run?.isProven = true
            }
            setReasserting(isOn)
        case .giveUp:
            run.context.cancel(
                TunnelError(
                    .connectivityLost,
                    "nothing comes through the tunnel to \(run.configuration.remoteAddress)"
                        + (run.monitor.options.endWhenDead == .atOnce ? "" : ", and healing did not help"),
                    fix: "check the server and the network, and start again"))
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
        case .resolve:
            // Who is heard stays where he is.
            let (now, time) = (run.elapsed.now, run.silencePatience)
            let unheard = run.parsedPeers.filter { !run.watch.wasHeard($0.key, within: time, now: now) }
            refreshEndpoints(rotating: Set(unheard.map(\.key)))
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

extension WireGuardTunnelProvider.Run {
    static let firstListeningInterval: Duration = .milliseconds(250)

    /// How long a peer may owe an answer before it is silent: as long as a tunnel may be without proof.
    var silencePatience: Duration {
        let options = configuration.connectivity
        return .seconds(options.connectivityInterval * Double(2 * options.maxConnectionAttempts))
    }

    func isSilent(_ key: PublicKey, _ now: Duration) -> Bool {
        watch.isSilent(key, now: now, patience: silencePatience)
    }

    /// Where the peers are.
    var places: [PublicKey: [IPAddress]] {
        var places: [PublicKey: [IPAddress]] = [:]
        for peer in plane.peers() { if let endpoint = peer.endpoint { places[peer.publicKey] = [endpoint.address] } }
        return places
    }

    /// The bytes that came from all peers.
    var receivedBytes: UInt64 { plane.peers().reduce(0) { $0 &+ $1.receivedBytes } }
}
