// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import Logging
import PacketTunnelLinux
import Synchronization
import TunnelServer
package import WireGuardCore
import WireGuardDevice

// The state that `/ready`, `status` and the metrics show.

extension GatewayRuntime {
    /// Whether the last round had no error and has applied all devices of the store, except for excluded ones.
    var isCurrent: Bool { sequence != nil && errors.isEmpty && peers.isCurrent && !isKeyPending }

    /// Publishes the result of the last round, and logs its problems once.
    func publish(_ change: (inout Shown) -> Void = { _ in }) {
        let found: [(part: String, what: String)] = [
            ("the store's changes", errors.store), ("WireGuard", errors.engine), ("the network", errors.network),
        ].compactMap { part, error in error.map { (part, "\(part): \($0)") } }
        let excluded = peers.exclusions.map { (part: "device \($0.device)", what: "device \($0.device): \($0.reason)") }
        let now = clock.now().timeIntervalSince1970
        for difference in [problems.update(found, now: now), exclusions.update(excluded, now: now)] {
            for problem in difference.new { logger.error("not in effect, will retry: \(problem.what)") }
            for part in difference.solved { logger.notice("in effect again: \(part)") }
        }
        let readiness = Readiness(isReady: isCurrent, problems: problems.list, exclusions: exclusions.list)
        let sequence = appliedSequence
        let isStopped = isStopped
        shown.withLock { shown in
            change(&shown)
            guard !isStopped else { return }
            (shown.sequence, shown.readiness) = (sequence, readiness)
        }
    }

    /// The time after which a round in progress is reported as a problem, in nanoseconds.
    private static let longestRound: Int64 = 1_000_000_000

    /// The state that `/ready` reports. Any thread may ask.
    package nonisolated var readiness: Readiness {
        let (shown, condition) = (shown.withLock { $0 }, network.condition)
        var readiness = shown.readiness
        readiness.problems += condition.problems
        if let failure = shown.device?.listenFailure {
            readiness.problems.append(
                NetworkProblem(what: "WireGuard: \(failure.error)", since: Double(failure.since.seconds)))
        }
        if let round = shown.round, clock.nanoseconds() - round.nanoseconds > Self.longestRound {
            readiness.problems.append(
                NetworkProblem(
                    what: "the last changes: not in effect yet, still being applied",
                    since: round.date.timeIntervalSince1970))
        }
        readiness.isReady = readiness.isReady && readiness.problems.isEmpty && condition.isCurrent && !condition.isHeld
        return readiness
    }

    /// The lifetime of a session that is not renewed, in seconds (WireGuard, section 6.1).
    private static let sessionLifetime: Int64 = 180

    /// The current figures. Safe to read from any thread.
    package nonisolated var figures: RuntimeFigures {
        let shown = shown.withLock { $0 }
        var figures = RuntimeFigures()
        figures.servesWireGuard = settings.servesWireGuard
        figures.network = network.condition
        figures.sequence = shown.sequence
        figures.isCurrent = shown.readiness.isReady
        (figures.rounds, figures.failedRounds) = (shown.rounds, shown.failedRounds)
        figures.readiness = readiness
        figures.login = shown.login.map { LoginFigures($0.statistics, drops: $0.drops, port: $0.port) }
        guard let device = shown.device else { return figures }
        let now = Int64(clock.now().timeIntervalSince1970)
        for peer in device.peers {
            figures.peers += 1
            figures.received &+= peer.receivedBytes
            figures.sent &+= peer.sentBytes
            if let last = peer.lastHandshake, now - last.seconds < Self.sessionLifetime { figures.online += 1 }
        }
        let statistics = device.statistics
        figures.handshakes = statistics.engine.handshakesCompleted
        figures.drops = statistics.drops
        (figures.waitingPackets, figures.waitingMessages) = device.queueDepths
        figures.port = device.listenPort
        return figures
    }

    /// The handshakes, endpoints and byte counts of the current peers, by public key.
    package nonisolated var livePeers: [PublicKey: PeerSnapshot] {
        let device = shown.withLock { $0.device }
        return Dictionary((device?.peers ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    }
}
