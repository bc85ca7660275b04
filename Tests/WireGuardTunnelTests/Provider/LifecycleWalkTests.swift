// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

@testable import WireGuardTunnel

/// Invariants of the lifecycle, after each of many events in random order.
@Suite("The lifecycle of a WireGuard tunnel, on random walks")
struct LifecycleWalkTests {
    private static func walks() -> [LifecycleWalk] {
        (0..<UInt64(150)).map { seed in
            var walk = LifecycleWalk(seed: seed)
            for _ in 0..<250 where !walk.hasEnded { walk.step() }
            walk.stop()
            return walk
        }
    }

    @Test("A doubted tunnel is never connected, a paused one sends nothing, and each change is reported once")
    func invariants() {
        for walk in Self.walks() { #expect(walk.problems.isEmpty, "seed \(walk.seed)") }
    }

    @Test("The walks pass through every state and every action")
    func coverage() {
        let walks = Self.walks()
        #expect(Set(walks.flatMap(\.states)) == Set(WireGuardState.allCases))
        let actions = Set(walks.flatMap(\.actions))
        #expect(actions.count == 13, "\(actions.sorted())")
    }
}

/// A provider that performs the actions on variables, and a world that changes at random.
private struct LifecycleWalk {
    typealias Action = WireGuardLifecycle.Action
    typealias Event = WireGuardLifecycle.Event

    let seed: UInt64
    private var random: SeededGenerator
    private var script: LifecycleScript
    private var reported = false
    private var hasKeepalives = true
    private var isChecking = false
    private(set) var hasEnded = false
    private(set) var problems: [String] = []
    private(set) var states: Set<WireGuardState> = []
    private(set) var actions: Set<String> = []

    private var lifecycle: WireGuardLifecycle { script.lifecycle }

    init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        let hasEndpoints = random.chance(0.6)
        script = LifecycleScript(Self.options(&random), hasEndpoints: hasEndpoints)
        let waits = hasEndpoints && random.chance(0.5)
        let isOffline = !waits && random.chance(0.3)
        hand(.started(handshakeTimeout: waits ? .seconds(15) : nil, isOffline: isOffline))
    }

    private static func options(_ random: inout SeededGenerator) -> ConnectivityOptions {
        let ends = ConnectivityOptions.EndWhenDead.allCases
        return ConnectivityOptions(
            isEnabled: random.chance(0.8), connectivityInterval: 10, maxConnectionAttempts: random.int(in: 1...3),
            endWhenDead: ends[random.int(in: 0..<ends.count)])
    }

    // MARK: - Events

    mutating func step() {
        change()
        hand(nextEvent())
    }

    /// Stops the run; no event has an effect afterwards.
    mutating func stop() {
        hand(.stop)
        let before = lifecycle
        for _ in 0..<20 {
            change()
            let event = anyEvent()
            let actions = script.hand(event)
            if !actions.isEmpty || lifecycle != before { problems.append("\(event) after the stop: \(actions)") }
        }
    }

    /// Receives data, or none.
    private mutating func change() {
        if random.chance(0.15) { script.receivedBytes += UInt64(random.int(in: 1...1500)) }
        if random.chance(0.1) {
            script.receivedBytes += 92
            script.handshakeAt = script.now
        }
        script.silentPeers = random.chance(0.1) ? [WireGuardLifecycleTests.peer] : []
    }

    private mutating func nextEvent() -> Event {
        // Hosts report sleep and paths once the start has returned.
        if case .awaitingHandshake = lifecycle.stage { return check(after: lifecycle.nextCheck) }
        if random.chance(0.7), isChecking, let delay = lifecycle.nextCheck { return check(after: delay) }
        script.now += .milliseconds(random.int(in: 0...60_000))
        return anyEvent()
    }

    private mutating func check(after delay: Duration?) -> Event {
        script.now += delay ?? .zero
        // Timers are sometimes late, and a start of a few steps passes its time limit.
        if random.chance(0.2) { script.now += .seconds(random.int(in: 0...10)) }
        return .checked
    }

    private mutating func anyEvent() -> Event {
        if lifecycle.isReconfiguring, random.chance(0.5) {
            if random.chance(0.3) { return .reconfigurationFailed }
            return .reconfigured(
                Self.options(&random), hasEndpoints: random.chance(0.6), hasMoved: random.chance(0.5))
        }
        switch random.int(in: 0..<6) {
        case 0: return .sleep
        case 1: return .wake
        case 2: return .path(.none)
        case 3: return .path(.same)
        case 4: return .path(.other)
        default: return lifecycle.canReconfigure ? .reconfigurationStarted : .wake
        }
    }

    // MARK: - Invariants

    private mutating func hand(_ event: Event) {
        // A new configuration has the keepalives that it names.
        if case .reconfigured = event { hasKeepalives = true }
        let performed = script.hand(event)
        var reports = 0
        for action in performed {
            actions.insert("\(action)".prefix { $0 != "(" }.description)
            switch action {
            case .report(let isReasserting):
                reports += 1
                if isReasserting == reported { problem(event, "reports \(isReasserting) again") }
                if !isReasserting, event != .checked { problem(event, "ends the doubt without a check") }
                reported = isReasserting
            case .setKeepalives(let isOn): hasKeepalives = isOn
            case .startChecks: isChecking = true
            case .cancelTasks: isChecking = false
            case .rebind, .resolve, .requestHandshakes, .nextEndpoint, .probe, .heal, .retry, .restart:
                if lifecycle.isPaused { problem(event, "\(action) during a pause") }
            case .giveUp: hasEnded = random.chance(0.7)
            }
        }
        if reports > 1 { problem(event, "reports \(reports) changes") }
        if lifecycle.stage == .ended { hasEnded = true } else { checkInvariants(after: event) }
        // The driver ends if there is nothing to check.
        if lifecycle.nextCheck == nil { isChecking = false }
        states.insert(lifecycle.state)
    }

    private mutating func checkInvariants(after event: Event) {
        if reported != lifecycle.isReasserting { problem(event, "has not reported its doubt") }
        if case .listening = lifecycle.stage, !reported { problem(event, "listens, and is called connected") }
        if [.connected, .probing].contains(lifecycle.state), reported { problem(event, "is connected and in doubt") }
        if [.listening, .healing].contains(lifecycle.state), !reported, lifecycle.monitor.phase != .ended {
            problem(event, "heals or listens without a report")
        }
        if hasKeepalives == lifecycle.isPaused { problem(event, "keepalives: \(hasKeepalives)") }
        if lifecycle.isPaused, lifecycle.nextCheck != nil { problem(event, "checks during a pause") }
        if case .awaitingHandshake = lifecycle.stage { return }
        if lifecycle.nextCheck != nil, !isChecking { problem(event, "waits for a check that nothing makes") }
    }

    private mutating func problem(_ event: Event, _ text: String) {
        problems.append("\(event): \(text), \(lifecycle.state)")
    }
}
