// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

/// The state of one run of a WireGuard tunnel. The provider passes each event with an observation, and performs the
/// returned actions. The value has no clock, task or socket.
///
/// *Doubt* means that the tunnel is reported as reasserting until it is proven to work. If a peer has an endpoint, the
/// ``ConnectivityMonitor`` looks for that proof. Otherwise the tunnel listens until a peer has sent something.
struct WireGuardLifecycle: Hashable, Sendable {
    enum Stage: Hashable, Sendable {
        /// The run has not been started.
        case new
        /// The start waits for a handshake until `limit` after `since`. `attempt` counts the moves to other endpoints.
        /// `interval` is the time until the next check.
        case awaitingHandshake(since: Duration, limit: Duration, attempt: Int, interval: Duration)
        /// The start has returned, and nothing has proven the tunnel yet.
        case connecting
        /// No peer has an endpoint, and no peer has connected. `bytesBefore` is the number of bytes received when listening
        /// began; it is `nil` during the pause or reconfiguration that began it. `interval` is the time until the next check.
        case listening(bytesBefore: UInt64?, interval: Duration)
        /// The tunnel was proven. If a peer has an endpoint, the monitor watches it.
        case watching
        /// The run was stopped, or its start has failed.
        case ended
    }

    /// The reasons for which the tunnel sends nothing on its own.
    struct Pause: OptionSet, Hashable, Sendable {
        let rawValue: UInt8
        /// The machine sleeps.
        static let asleep = Pause(rawValue: 1)
        /// No peer can be reached.
        static let offline = Pause(rawValue: 2)
    }

    /// A new path, as compared with the path before.
    enum PathChange: Hashable, Sendable {
        /// The path leads to no peer.
        case none
        /// Packets leave the machine in the same way as before.
        case same
        /// Packets leave the machine in another way.
        case other
    }

    enum Event: Hashable, Sendable {
        /// The device runs. A start that waits for a handshake has a time limit, and a network.
        case started(handshakeTimeout: Duration?, isOffline: Bool)
        /// The time of ``WireGuardLifecycle/nextCheck`` has passed.
        case checked
        /// A packet has passed through the tunnel, in either direction, since it became quiet.
        case packetPassed
        /// The result of ``Action/restart``, with an observation that was made after it.
        case restarted
        case sleep
        case wake
        case path(PathChange)
        case reconfigurationStarted
        /// The device has another configuration. `hasMoved` means that its names were not resolved on the present path.
        case reconfigured(ConnectivityOptions, hasEndpoints: Bool, hasMoved: Bool)
        /// The device has its previous configuration.
        case reconfigurationFailed
        case stop
    }

    /// The provider's view of the peers at one moment.
    struct Observation: Hashable, Sendable {
        /// The sums over all peers.
        var all: ConnectivityMonitor.Observation
        /// The peers with an endpoint that have owed an answer for too long.
        var silentPeers: [PublicKey] = []
        /// Whether a peer has sent or received bytes since the observation before.
        var hasTraffic = true
        /// Whether the tunnel may be checked rarely while it is idle: no peer sends keepalives, which wake the machine anyway,
        /// and no new address of a peer needs other routes.
        var mayRest = true
        /// The time since the start for which the machine slept, as far as its clocks show it.
        var asleep = Duration.zero
    }

    enum Action: Hashable, Sendable {
        /// Bind new sockets.
        case rebind
        /// Restore the keepalives from before the pause, or turn all keepalives off.
        case setKeepalives(Bool)
        /// Resolve all peers in the background. A peer that uses one of its resolved addresses keeps it.
        case resolve
        /// Request a handshake with each peer that has an endpoint.
        case requestHandshakes
        /// Move each peer to the next of the addresses that its name had at the start.
        case nextEndpoint(attempt: Int)
        /// Send a ping, or request handshakes if no ping can be sent.
        case probe
        /// Perform a healing step.
        case heal(ConnectivityMonitor.Step)
        /// Resolve these peers, move each to its next address and request a handshake with it.
        case retry([PublicKey])
        /// Clear what peers owe, observe, and pass in ``Event/restarted``.
        case restart
        /// Pass in ``Event/checked`` after each ``WireGuardLifecycle/nextCheck``, beginning now.
        case startChecks
        /// Cancel checks, lookups, and queued handshake requests.
        case cancelTasks
        /// Report to the host whether the tunnel currently carries no data.
        case report(reasserting: Bool)
        /// End the tunnel: no packet arrives, and the configuration ends a dead tunnel.
        case giveUp
    }

    static let firstListeningInterval = Duration.milliseconds(250)
    private static let longestListeningInterval = Duration.seconds(5)
    /// The bounds of the time between two checks of a start. The device does not report the handshake, so a check finds it.
    private static let firstHandshakeInterval = Duration.milliseconds(1)
    private static let longestHandshakeInterval = Duration.milliseconds(20)
    /// The time between checks of an idle tunnel. Its next packet is reported.
    static let restInterval = Duration.seconds(60)
    private static let pauseActions = [Action.cancelTasks, .setKeepalives(false)]

    private(set) var stage = Stage.new
    private(set) var pause: Pause = []
    private(set) var isReconfiguring = false
    /// Whether the configuration names an endpoint of a peer.
    private(set) var hasEndpoints: Bool
    private(set) var monitor: ConnectivityMonitor
    /// The time of the last ``Action/retry``.
    private var lastRetry: Duration?
    /// The number of consecutive checks that found no traffic and nothing to wait for; at most 2.
    private var quietChecks = 0
    /// Whether a peer has sent or received bytes since the last check.
    private var hadTraffic = false
    /// ``Observation/asleep`` at the last check.
    private var asleepAtCheck = Duration.zero

    /// A run that has not been started.
    init(_ options: ConnectivityOptions, hasEndpoints: Bool) {
        self.hasEndpoints = hasEndpoints
        monitor = Self.makeMonitor(options, .init(now: .zero, receivedBytes: 0))
    }

    private static func makeMonitor(
        _ options: ConnectivityOptions, _ baseline: ConnectivityMonitor.Observation
    ) -> ConnectivityMonitor {
        var options = options
        // A disabled monitor only detects the end of doubt, and never ends the tunnel.
        if !options.isEnabled { options.endWhenDead = .never }
        return ConnectivityMonitor(options: options, baseline: baseline)
    }

    // MARK: - The state

    var isPaused: Bool { !pause.isEmpty }

    /// Whether the tunnel currently carries no data, as reported to the host.
    var isReasserting: Bool { isListening || monitor.isReasserting }

    private var isListening: Bool { if case .listening = stage { true } else { false } }

    /// Whether each check must find the peers that owe an answer.
    var isMonitored: Bool { hasEndpoints && (stage == .connecting || stage == .watching) }

    /// Whether the configuration may be replaced: the start has returned, and no other replacement is in progress.
    var canReconfigure: Bool {
        switch stage {
        case .new, .awaitingHandshake, .ended: false
        case .connecting, .listening, .watching: !isReconfiguring
        }
    }

    /// Whether the provider must pass in ``Event/packetPassed`` after the next packet.
    var awaitsPacket: Bool { quietChecks > 0 && nextCheck != nil }

    /// Whether the tunnel is idle, so that checks are rare until its next packet. One check is not enough: a packet
    /// that passed before the provider awaited one may be counted after it.
    private var isResting: Bool { quietChecks > 1 }

    /// The time from one check to the next, or `nil` if there is nothing to check.
    var nextCheck: Duration? {
        if case .awaitingHandshake(_, _, _, let interval) = stage { return interval }
        guard !isPaused, !isReconfiguring else { return nil }
        switch stage {
        case .new, .awaitingHandshake, .ended: return nil
        case .listening(_, let interval): return interval
        case .connecting, .watching:
            // Without a monitor, only the end of doubt is awaited. A monitor that has ended the tunnel does nothing.
            guard hasEndpoints, monitor.phase != .ended, monitor.options.isEnabled || monitor.isReasserting else {
                return nil
            }
            return isResting ? max(Self.restInterval, monitor.nextInterval) : monitor.nextInterval
        }
    }

    /// The state that a status reply contains.
    var state: WireGuardState {
        if stage == .ended { return .stopped }
        if isReconfiguring { return .reconfiguring }
        if isPaused { return .paused }
        switch stage {
        case .new, .awaitingHandshake, .connecting: return .connecting
        case .listening: return .listening
        case .ended: return .stopped
        case .watching:
            return switch monitor.phase {
            case .watching: .connected
            case .probing: monitor.isReasserting ? .healing : .probing
            case .healing, .ended: .healing
            }
        }
    }

    // MARK: - Events

    /// Handles an event and returns the actions to perform, in this order.
    mutating func handle(_ event: Event, _ observation: Observation) -> [Action] {
        guard stage != .ended else { return [] }
        if observation.hasTraffic { hadTraffic = true }
        let wasReasserting = isReasserting
        let actions = respond(to: event, observation)
        guard stage != .ended, isReasserting != wasReasserting else { return actions }
        return [.report(reasserting: isReasserting)] + actions
    }

    private mutating func respond(to event: Event, _ observation: Observation) -> [Action] {
        switch event {
        case .started(let timeout, let isOffline): return start(timeout, isOffline, observation)
        case .checked: return check(observation)
        case .packetPassed: return endRest(observation)
        case .restarted: return restart(observation)
        case .sleep: return begin(.asleep)
        case .wake: return pause.contains(.asleep) ? end(.asleep) : []
        case .path(.none):
            if !pause.contains(.offline) { doubt(observation) }
            return begin(.offline)
        case .path where pause.contains(.offline): return end(.offline)
        case .path(let change): return change == .other && !isPaused ? resume() : []
        case .reconfigurationStarted:
            isReconfiguring = true
            doubt(observation)
            return []
        case .reconfigured(let options, let hasEndpoints, let hasMoved):
            reconfigure(options, hasEndpoints, observation)
            if isPaused { return Self.pauseActions }
            return (hasMoved ? [.resolve] : []) + [.requestHandshakes, .restart]
        case .reconfigurationFailed:
            isReconfiguring = false
            return isPaused ? [] : [.restart]
        case .stop:
            stage = .ended
            return []
        }
    }

    private mutating func start(_ timeout: Duration?, _ isOffline: Bool, _ observation: Observation) -> [Action] {
        monitor = Self.makeMonitor(monitor.options, observation.all)
        if isOffline { pause = .offline }
        let actions: [Action]
        if let timeout {
            stage = .awaitingHandshake(
                since: observation.all.now, limit: timeout, attempt: 0, interval: Self.firstHandshakeInterval)
            actions = [.requestHandshakes]
        } else if hasEndpoints {
            stage = .connecting
            doubt(observation)
            actions = [.resolve, .restart]
        } else {
            // The device has run for a moment: bytes received since then count.
            stage = .listening(bytesBefore: 0, interval: Self.firstListeningInterval)
            actions = [.startChecks]
        }
        return isOffline ? Self.pauseActions : actions
    }

    private mutating func reconfigure(
        _ options: ConnectivityOptions, _ hasEndpoints: Bool, _ observation: Observation
    ) {
        isReconfiguring = false
        self.hasEndpoints = hasEndpoints
        monitor = Self.makeMonitor(options, observation.all)
        if !hasEndpoints {
            let bytes = observation.all.receivedBytes
            stage = .listening(bytesBefore: bytes, interval: Self.firstListeningInterval)
        } else if isListening {
            stage = .watching
        }
        doubt(observation)
    }

    // MARK: - Pauses and doubt

    private mutating func begin(_ reason: Pause) -> [Action] {
        let actions = isPaused ? [] : Self.pauseActions
        pause.insert(reason)
        return actions
    }

    private mutating func end(_ reason: Pause) -> [Action] {
        pause.remove(reason)
        return isPaused ? [] : resume()
    }

    private func resume() -> [Action] { [.rebind, .setKeepalives(true), .resolve, .requestHandshakes, .restart] }

    /// Reports the tunnel as reasserting until something proves it.
    private mutating func doubt(_ observation: Observation) {
        if hasEndpoints {
            monitor.restart(from: observation.all, isReasserting: true)
        } else if !isListening {
            stage = .listening(bytesBefore: nil, interval: Self.firstListeningInterval)
        }
    }

    /// Restarts the search for proof from this observation.
    private mutating func restart(_ observation: Observation) -> [Action] {
        (quietChecks, asleepAtCheck) = (0, observation.asleep)
        switch stage {
        case .new, .awaitingHandshake, .ended: return []
        case .listening(let bytes, _):
            stage = .listening(
                bytesBefore: bytes ?? observation.all.receivedBytes, interval: Self.firstListeningInterval)
        case .connecting, .watching:
            if hasEndpoints { monitor.restart(from: observation.all, isReasserting: monitor.isReasserting) }
        }
        return [.startChecks]
    }

    // MARK: - Checks

    private mutating func check(_ observation: Observation) -> [Action] {
        defer { (hadTraffic, asleepAtCheck) = (false, observation.asleep) }
        if case .awaitingHandshake(let since, let limit, let attempt, _) = stage {
            return checkStart(observation, since: since, limit: limit, attempt: attempt)
        }
        guard nextCheck != nil else { return [] }
        if case .listening(let bytesBefore, let interval) = stage {
            // An initiation alone may be a replay, so only the first packet of its session is proof.
            if observation.all.receivedBytes != bytesBefore, observation.all.handshakeAge != nil {
                // A peer has connected; stop listening, even if it leaves again.
                stage = .watching
            } else {
                // A peer usually connects soon; if not, it may connect at any time, so checks become less frequent.
                let next = min(interval * 1.25, Self.longestListeningInterval)
                stage = .listening(bytesBefore: bytesBefore, interval: next)
            }
            return []
        }
        if isResting {
            let (usual, rest) = (monitor.nextInterval, Self.restInterval - monitor.nextInterval)
            // WireGuard itself may have sent since the first second of the rest, and the peer may owe the answer since then.
            skip(hadTraffic ? min(usual, rest) : rest, observation)
        }
        var actions: [Action] = []
        for action in monitor.tick(observation.all) {
            switch action {
            case .probe: actions.append(.probe)
            case .heal(let step): actions.append(.heal(step))
            case .giveUp: actions.append(.giveUp)
            case .reasserting: break  // ``handle(_:_:)`` reports each change.
            }
        }
        if stage == .connecting, !monitor.isReasserting { stage = .watching }
        quietChecks = isQuiet(observation) ? min(quietChecks + 1, 2) : 0
        return actions + retry(observation)
    }

    /// Whether nothing was sent or received since the last check, and nothing is awaited or due.
    private func isQuiet(_ observation: Observation) -> Bool {
        stage == .watching && monitor.phase == .watching(flat: 0) && !monitor.isReasserting
            && monitor.options.pingAddress == nil && observation.mayRest && !hadTraffic && !observation.all.isOwed
            && observation.silentPeers.isEmpty
    }

    /// Excludes the time of a rest from the time without proof, but not the machine's sleep, which the host may not report.
    private mutating func skip(_ time: Duration, _ observation: Observation) {
        monitor.skip(time - (observation.asleep - asleepAtCheck))
    }

    /// Returns to checks at the usual interval, beginning now.
    private mutating func endRest(_ observation: Observation) -> [Action] {
        guard awaitsPacket else { return [] }
        let wasResting = isResting
        quietChecks = 0
        guard wasResting else { return [] }
        skip(min(monitor.age(at: observation.all.now), Self.restInterval), observation)
        return [.startChecks]
    }

    private mutating func checkStart(
        _ observation: Observation, since: Duration, limit: Duration, attempt: Int
    ) -> [Action] {
        let elapsed = observation.all.now - since
        if observation.all.handshakeAge != nil {
            stage = .watching
            monitor = Self.makeMonitor(monitor.options, observation.all)
            if pause.contains(.offline) { doubt(observation) }
            return isPaused ? [] : [.startChecks]
        }
        guard elapsed < limit else {
            stage = .ended
            return []
        }
        // Two handshakes fit into a third of the usual time.
        let isNext = elapsed >= limit / 3 * (attempt + 1)
        // A check then finds the answer late by at most a quarter of the time that the answer took.
        let interval = min(max(elapsed / 4, Self.firstHandshakeInterval), Self.longestHandshakeInterval)
        stage = .awaitingHandshake(
            since: since, limit: limit, attempt: isNext ? attempt + 1 : attempt, interval: interval)
        return isNext ? [.nextEndpoint(attempt: attempt + 1)] : []
    }

    /// Retries silent peers of a tunnel that otherwise works. It stays connected.
    private mutating func retry(_ observation: Observation) -> [Action] {
        // Retry as rarely as healing does after several failed rounds.
        let (now, interval) = (observation.all.now, Duration.seconds(monitor.options.healingInterval * 8))
        guard !monitor.isReasserting, !observation.silentPeers.isEmpty,
            lastRetry.map({ now - $0 >= interval }) ?? true
        else { return [] }
        lastRetry = now
        return [.retry(observation.silentPeers)]
    }
}
