// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import WireGuardCore

// Passes events to the lifecycle, and performs its actions.
extension WireGuardTunnelProvider {
    /// Hands an event of the present run to its lifecycle, and performs the actions.
    func handle(_ event: WireGuardLifecycle.Event) {
        guard let observation = run?.observe() else { return }
        for action in run?.lifecycle.handle(event, observation) ?? [] { perform(action) }
    }

    private func perform(_ action: WireGuardLifecycle.Action) {
        guard let run else { return }
        let logger = run.context.logger
        switch action {
        case .rebind: rebind(run)
        case .setKeepalives(let isOn): setKeepalives(isOn: isOn)
        case .resolve: refreshEndpoints()
        case .requestHandshakes: requestHandshakes(run)
        case .nextEndpoint(let attempt): moveToCandidates(attempt, run)
        case .probe: probe(run)
        case .heal(let step):
            logger.warning("no data arrives through the tunnel, healing: \(step)")
            heal(step, run)
        case .retry(let peers):
            logger.warning("\(peers.count) of the peers do not answer: resolving them again")
            refreshEndpoints(rotating: Set(peers))
            for key in peers { run.plane.requestHandshake(with: key) }
        case .restart:
            self.run?.watch.forget()
            handle(.restarted)
        case .startChecks:
            driver?.cancel()
            driver = Task { await self.drive() }
        case .cancelTasks: cancelTasks()
        case .report(let isReasserting):
            if !isReasserting { logger.info("the tunnel carries packets") }
            run.context.setReasserting(isReasserting)
        case .giveUp: giveUp(run)
        }
    }

    private func drive() async {
        while !Task.isCancelled, let run, let delay = awaitPacket() {
            do { try await run.context.clock.sleep(for: delay) } catch { return }
            if Task.isCancelled { return }
            handle(.checked)
            if let addresses = self.run?.newAddresses, !addresses.isEmpty { await announce(addresses) }
        }
    }

    /// Has the plane report the next packet or changed endpoint if the lifecycle needs it.
    /// - Returns: the time until the next check, or `nil` if there is nothing to check.
    private func awaitPacket() -> Duration? {
        guard let run, let delay = run.lifecycle.nextCheck else { return nil }
        guard run.lifecycle.awaitsPacket else {
            run.plane.onNextPacket(nil)
            return delay
        }
        let packets = run.packets.continuation
        run.plane.onNextPacket { packets.yield() }
        return delay
    }

    /// Passes reports of packets to the lifecycle of a run, until the run ends.
    func followPackets(of run: Run) {
        Task {
            for await _ in run.packets.stream where current(run)?.lifecycle.awaitsPacket == true {
                handle(.packetPassed)
            }
        }
    }

    /// Cancels all scheduled work.
    func cancelTasks() {
        driver?.cancel()
        refreshing?.cancel()
        forgetHandshakes()
    }

    /// Returns the present state of a run, or `nil` if the run has ended.
    func current(_ run: Run) -> Run? { self.run?.number == run.number ? self.run : nil }

    /// Whether an IP packet has arrived through the tunnel since the last start or reconfiguration. A handshake alone does
    /// not count.
    package var hasCarriedPackets: Bool { run?.plane.hasDelivered ?? false }

    /// Sends a ping through the tunnel, or requests a handshake if no ping can be sent.
    private func probe(_ run: Run) {
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
            // A peer from which data still arrives keeps its endpoint.
            let (now, time) = (run.elapsed.now, run.silencePatience)
            let keys = run.configuration.peers.map(\.publicKey)
            refreshEndpoints(rotating: Set(keys.filter { !run.watch.wasHeard($0, within: time, now: now) }))
        case .handshake: requestHandshakes(run)
        }
    }

    /// Opens new sockets. If that fails, healing tries again.
    private func rebind(_ run: Run) {
        do throws(TunnelError) { try run.plane.rebind() } catch {
            run.context.logger.error("cannot open new UDP sockets, will retry: \(error)")
        }
    }

    private func giveUp(_ run: Run) {
        run.context.cancel(.connectivityLost(to: run.configuration.remoteAddress, run.configuration.connectivity))
    }
}

extension WireGuardTunnelProvider.Run {
    /// Observes the peers. Replies to pings are counted once.
    mutating func observe() -> WireGuardLifecycle.Observation {
        var all = ConnectivityMonitor.Observation(now: elapsed.now, receivedBytes: 0)
        let peers = plane.peers()
        for peer in peers {
            all.receivedBytes &+= peer.receivedBytes
            if let age = peer.handshakeAge { all.handshakeAge = min(all.handshakeAge ?? age, age) }
        }
        guard lifecycle.isMonitored else { return WireGuardLifecycle.Observation(all: all) }
        var keepalives: [PublicKey: UInt16] = [:]
        for peer in peers {
            keepalives[peer.publicKey] = peer.persistentKeepalive
            if let address = peer.endpoint?.address, !checkedAddresses.contains(address) {
                newAddresses.insert(address)
            }
        }
        watch.update(with: peers, now: all.now) { keepalives[$0] ?? 0 }
        let silent = configuration.peers.filter { $0.endpoint != nil && isSilent($0.publicKey, all.now) }
        all.isGatewaySilent = silent.contains { $0.isGateway }
        all.isOwed = watch.isOwed
        all.pingReplied = prober.takeReply()
        return WireGuardLifecycle.Observation(
            all: all, silentPeers: silent.map(\.publicKey), hasTraffic: watch.hasTraffic,
            mayRest: keepalives.values.allSatisfy { $0 == 0 }, asleep: elapsed.asleep)
    }

    /// The time for which a peer may owe an answer before it counts as silent. It equals the time for which a tunnel
    /// may be without proof.
    fileprivate var silencePatience: Duration {
        let options = configuration.connectivity
        return .seconds(options.connectivityInterval * Double(2 * options.maxConnectionAttempts))
    }

    func isSilent(_ key: PublicKey, _ now: Duration) -> Bool {
        watch.isSilent(key, now: now, patience: silencePatience)
    }

    /// The known addresses of the peers.
    var places: [PublicKey: [IPAddress]] {
        var places: [PublicKey: [IPAddress]] = [:]
        for peer in plane.peers() { if let endpoint = peer.endpoint { places[peer.publicKey] = [endpoint.address] } }
        return places
    }
}
