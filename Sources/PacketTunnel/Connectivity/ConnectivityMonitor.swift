// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Decides whether a tunnel still carries data. The monitor has no clock and does no I/O: it receives observations and
/// returns actions.
///
/// It checks for received data while an answer is owed or there is an address to ping; an idle tunnel is not checked. After
/// ``ConnectivityOptions/maxConnectionAttempts`` checks without received data it has the tunnel probed. After as many
/// intervals without an answer it has the tunnel healed, step by step, without end unless ``ConnectivityOptions/endWhenDead``
/// ends the tunnel. Only received data counts: a byte from the peer, a handshake, a reply to a ping. Sent data does not.
///
/// If there are several peers, traffic from one is not proof for another: see ``Observation/isGatewaySilent``.
public struct ConnectivityMonitor: Hashable, Sendable {
    /// The healing steps, in order.
    public enum Step: Int, Hashable, Sendable, CaseIterable {
        /// Bind new sockets.
        case rebind
        /// Resolve the endpoint's name again, and try another of its addresses.
        case resolve
        /// Start a new handshake.
        case handshake
    }

    /// The state of the tunnel at one moment.
    public struct Observation: Hashable, Sendable {
        /// The time, on a monotonic clock.
        public var now: Duration
        /// The bytes received from all peers since the tunnel started.
        public var receivedBytes: UInt64
        /// The time since the last handshake completed; `nil` if there was none.
        public var handshakeAge: Duration?
        /// Whether a valid reply to a ping has arrived since the previous observation.
        public var pingReplied: Bool
        /// Whether a peer with a default route has owed an answer for too long. If so, data from other peers does not count.
        public var isGatewaySilent: Bool
        /// Whether a sent packet is still unanswered.
        public var isOwed: Bool

        /// Makes an observation.
        public init(
            now: Duration, receivedBytes: UInt64, handshakeAge: Duration? = nil, pingReplied: Bool = false,
            isGatewaySilent: Bool = false, isOwed: Bool = true
        ) {
            self.now = now
            self.receivedBytes = receivedBytes
            self.handshakeAge = handshakeAge
            self.pingReplied = pingReplied
            self.isGatewaySilent = isGatewaySilent
            self.isOwed = isOwed
        }
    }

    /// An action that the monitor asks for.
    public enum Action: Hashable, Sendable {
        /// Send a ping, or request a handshake if there is no address to ping.
        case probe
        /// Perform a healing step.
        case heal(Step)
        /// Report whether the tunnel currently carries no data.
        case reasserting(Bool)
        /// End the tunnel: it is dead, and ``ConnectivityOptions/endWhenDead`` applies.
        case giveUp
    }

    /// The progress of monitoring or healing.
    public enum Phase: Hashable, Sendable {
        /// `flat` consecutive checks found no received data.
        case watching(flat: Int)
        /// The tunnel has been probed since this time.
        case probing(since: Duration)
        /// A healing step was performed at this time; rounds count from zero.
        case healing(Step, since: Duration, round: Int)
        /// The monitor has ended the tunnel.
        case ended
    }

    /// The options of the monitor.
    public let options: ConnectivityOptions
    /// The current phase.
    public private(set) var phase = Phase.watching(flat: 0)
    /// Whether the tunnel was reported as carrying no data.
    public private(set) var isReasserting = false
    private var baseline: Observation
    private var lastProbe: Duration?
    /// The time of the last proof that the tunnel works. Pauses and network changes do not change it.
    private var lastLife: Duration

    /// Creates a monitor for a tunnel that has just been proven to work.
    public init(options: ConnectivityOptions, baseline: Observation) {
        self.options = options
        self.baseline = baseline
        lastLife = baseline.now
    }

    /// Restarts monitoring after a pause or a change: earlier observations do not count. The tunnel is probed until there is
    /// proof, and reported as not working as soon as the last proof is too old, even if this is called often.
    /// - Parameters:
    ///   - observation: the current state of the tunnel.
    ///   - isReasserting: whether the tunnel is reported as not working until there is proof.
    public mutating func restart(from observation: Observation, isReasserting: Bool) {
        baseline = observation
        lastProbe = nil
        self.isReasserting = isReasserting
        phase = .probing(since: observation.now)
    }

    /// The time until the next observation.
    public var nextInterval: Duration {
        switch phase {
        case .watching, .ended: .seconds(options.connectivityInterval)
        // A caller that waits for proof needs a fast answer; after a whole round of healing without success, checks are
        // slower.
        case .probing, .healing(_, _, 0):
            .seconds(isReasserting ? min(options.pingInterval, 0.25) : options.pingInterval)
        case .healing: .seconds(options.pingInterval)
        }
    }

    /// Excludes this time, in which the caller made no observation because nothing was sent and no answer was owed, from the
    /// time since the last observation and since the last proof.
    package mutating func skip(_ time: Duration) {
        baseline.now += max(time, .zero)
        lastLife += max(time, .zero)
    }

    /// The time since the last observation.
    package func age(at now: Duration) -> Duration { max(now - baseline.now, .zero) }

    /// Evaluates an observation and returns the actions to perform.
    public mutating func tick(_ observation: Observation) -> [Action] {
        if phase == .ended { return [] }
        let isAlive = !observation.isGatewaySilent && isAlive(observation)
        let gap = observation.now - baseline.now
        baseline = observation
        if isAlive {
            phase = .watching(flat: 0)
            lastLife = observation.now
            guard isReasserting else { return [] }
            isReasserting = false
            return [.reasserting(false)]
        }
        switch (phase, observation.isGatewaySilent) {
        // A silent gateway has already had its time to answer.
        case (.watching, true), (.probing, true): return heal(.rebind, observation.now, round: 0)
        case (.watching, false) where !observation.isOwed && options.pingAddress == nil && gap <= patience:
            // No answer was owed, so silence proves nothing.
            phase = .watching(flat: 0)
            lastLife = observation.now
            return []
        case (.watching(let flat), false):
            phase = .watching(flat: flat + 1)
            // A gap this long between checks means that the machine slept without a notification.
            guard flat + 1 >= options.maxConnectionAttempts || gap > patience else { return [] }
            phase = .probing(since: observation.now)
            lastProbe = nil
            return doubt(observation.now) + probe(observation.now)
        case (.probing(let since), false):
            guard observation.now - since >= patience else { return doubt(observation.now) + probe(observation.now) }
            return heal(.rebind, observation.now, round: 0)
        case (.healing(let step, let since, let round), _):
            // Each failed round doubles the interval, up to eight times.
            let patience = Duration.seconds(options.healingInterval * Double(1 << min(round, 3)))
            guard observation.now - since >= patience else { return probe(observation.now) }
            if let next = Step(rawValue: step.rawValue + 1) { return heal(next, observation.now, round: round) }
            if options.endWhenDead == .never { return heal(.rebind, observation.now, round: round + 1) }
            return giveUp()
        case (.ended, _): return []
        }
    }

    private func isAlive(_ observation: Observation) -> Bool {
        if observation.pingReplied { return true }
        let (now, before) = (observation.receivedBytes, baseline.receivedBytes)
        // Replaced peers count from zero again.
        if now > before || (now < before && now > 0) { return true }
        guard let age = observation.handshakeAge, age >= .zero else { return false }
        return age < observation.now - baseline.now
    }

    private var patience: Duration {
        .seconds(options.connectivityInterval * Double(options.maxConnectionAttempts))
    }

    /// Reports the tunnel as carrying no data once the last proof is too old, even if healing is not due yet.
    private mutating func doubt(_ now: Duration) -> [Action] {
        guard !isReasserting, now - lastLife >= patience * 2 else { return [] }
        isReasserting = true
        return [.reasserting(true)]
    }

    private mutating func probe(_ now: Duration) -> [Action] {
        if let lastProbe, now - lastProbe < .seconds(options.pingInterval) { return [] }
        lastProbe = now
        return [.probe]
    }

    private mutating func giveUp() -> [Action] {
        phase = .ended
        return [.giveUp]
    }

    private mutating func heal(_ step: Step, _ now: Duration, round: Int) -> [Action] {
        if options.endWhenDead == .atOnce { return giveUp() }
        phase = .healing(step, since: now, round: round)
        lastProbe = now
        var actions: [Action] = [.heal(step), .probe]
        if !isReasserting {
            isReasserting = true
            actions.insert(.reasserting(true), at: 0)
        }
        return actions
    }
}
