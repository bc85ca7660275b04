// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import WireGuardTunnel

/// Each row of the transition table, on the value that decides.
@Suite("The lifecycle of a WireGuard tunnel, row by row")
struct WireGuardLifecycleTests {
    typealias Action = WireGuardLifecycle.Action
    typealias Event = WireGuardLifecycle.Event

    /// A way to a state.
    enum Situation: String, CaseIterable {
        case new, newWithoutEndpoint
        case waiting, waitingOffline, connecting, connectingOffline
        case listening, listeningOffline, peerCame, peerCameOffline
        case connected, healing, asleep, offline, asleepOffline
        case reconfiguring, reconfiguringAsleep, reconfiguringConnecting, reconfiguringListening, reconfiguringPeerCame

        private static let withoutEndpoint: Set<Situation> = [
            .newWithoutEndpoint, .listening, .listeningOffline, .peerCame, .peerCameOffline, .reconfiguringListening,
            .reconfiguringPeerCame,
        ]

        var script: LifecycleScript {
            var script = LifecycleScript(hasEndpoints: !Self.withoutEndpoint.contains(self))
            for step in steps {
                step.seen.apply(to: &script)
                _ = script.hand(step.event)
            }
            return script
        }

        private struct Step {
            var event: Event
            var seen = Seen.nothing
        }

        private static let start = Event.started(handshakeTimeout: .seconds(15), isOffline: false)

        private var steps: [Step] {
            switch self {
            case .new, .newWithoutEndpoint: []
            case .waiting: [Step(event: Self.start)]
            case .waitingOffline: Self.waiting.steps + [Step(event: .path(.none))]
            case .connecting, .listening: [Step(event: .started(handshakeTimeout: nil, isOffline: false))]
            case .connectingOffline, .listeningOffline: [Step(event: .started(handshakeTimeout: nil, isOffline: true))]
            case .peerCame: Self.listening.steps + [Step(event: .checked, seen: .packet)]
            case .peerCameOffline: Self.peerCame.steps + [Step(event: .path(.none))]
            case .connected: Self.waiting.steps + [Step(event: .checked, seen: .packet)]
            case .healing: Self.offline.steps + [Step(event: .path(.other))]
            case .asleep: Self.connected.steps + [Step(event: .sleep)]
            case .offline: Self.connected.steps + [Step(event: .path(.none))]
            case .asleepOffline: Self.offline.steps + [Step(event: .sleep)]
            case .reconfiguring: Self.connected.steps + [Step(event: .reconfigurationStarted)]
            case .reconfiguringAsleep: Self.asleep.steps + [Step(event: .reconfigurationStarted)]
            case .reconfiguringConnecting: Self.connecting.steps + [Step(event: .reconfigurationStarted)]
            case .reconfiguringListening: Self.listening.steps + [Step(event: .reconfigurationStarted)]
            case .reconfiguringPeerCame: Self.peerCame.steps + [Step(event: .reconfigurationStarted)]
            }
        }
    }

    /// A change since the event before.
    enum Seen: Hashable, Sendable {
        case nothing
        case bytes
        case handshake
        /// A handshake, and the first packet of its session.
        case packet
        case silentPeer
        case time(Duration)

        func apply(to script: inout LifecycleScript) {
            switch self {
            case .nothing: break
            case .bytes: script.receivedBytes += 100
            case .handshake: script.handshakeAt = script.now
            case .packet:
                script.receivedBytes += 100
                script.handshakeAt = script.now
            case .silentPeer: script.silentPeers = [WireGuardLifecycleTests.peer]
            case .time(let time): script.now += time
            }
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var situation: Situation
        var event: Event
        var seen: Seen
        var actions: [Action]
        var state: WireGuardState
        var isReasserting: Bool

        /// - Parameter state: the state afterwards, with `true` if the tunnel is reasserting.
        init(
            _ situation: Situation, _ event: Event, seen: Seen = .nothing, _ actions: [Action],
            _ state: (WireGuardState, Bool)
        ) {
            (self.situation, self.event, self.seen, self.actions) = (situation, event, seen, actions)
            (self.state, isReasserting) = state
        }

        var testDescription: String { "\(situation), \(event), \(seen)" }
    }

    static let peer: PublicKey = {
        var random = SeededGenerator(seed: 3)
        return PrivateKey(using: &random).publicKey
    }()

    static let quiet: [Action] = [.cancelTasks, .setKeepalives(false)]
    static let resumed: [Action] = [
        .rebind, .setKeepalives(true), .resolve, .requestHandshakes, .restart, .startChecks,
    ]
    static let doubted = Action.report(reasserting: true)
    static let doubtedPause: [Action] = [doubted, .cancelTasks, .setKeepalives(false)]
    static let proven = Action.report(reasserting: false)

    static func started(waits: Bool = false, isOffline: Bool = false) -> Event {
        .started(handshakeTimeout: waits ? .seconds(15) : nil, isOffline: isOffline)
    }

    static func reconfigured(hasEndpoints: Bool = true, hasMoved: Bool = false) -> Event {
        .reconfigured(ConnectivityOptions(), hasEndpoints: hasEndpoints, hasMoved: hasMoved)
    }

    static let starts: [Row] = [
        Row(.new, started(waits: true), [.requestHandshakes], (.connecting, false)),
        Row(.new, started(), [doubted, .resolve, .restart, .startChecks], (.connecting, true)),
        Row(.new, started(isOffline: true), doubtedPause, (.paused, true)),
        Row(.newWithoutEndpoint, started(), [doubted, .startChecks], (.listening, true)),
        Row(.newWithoutEndpoint, started(isOffline: true), doubtedPause, (.paused, true)),
        Row(.waiting, .checked, [], (.connecting, false)),
        Row(.waiting, .checked, seen: .time(.seconds(4)), [], (.connecting, false)),
        Row(.waiting, .checked, seen: .time(.seconds(5)), [.nextEndpoint(attempt: 1)], (.connecting, false)),
        Row(.waiting, .checked, seen: .time(.seconds(15)), [], (.stopped, false)),
        Row(.waiting, .checked, seen: .handshake, [.startChecks], (.connected, false)),
        Row(.waiting, .path(.none), doubtedPause, (.paused, true)),
        Row(.waitingOffline, .checked, seen: .handshake, [], (.paused, true)),
        Row(.waitingOffline, .path(.other), Array(resumed.dropLast()), (.connecting, true)),
    ]

    static let checks: [Row] = [
        Row(.connecting, .checked, seen: .time(.milliseconds(250)), [.probe], (.connecting, true)),
        Row(.connecting, .checked, seen: .time(.seconds(30)), [.heal(.rebind), .probe], (.connecting, true)),
        Row(.connecting, .checked, seen: .bytes, [proven], (.connected, false)),
        Row(.connected, .checked, seen: .time(.seconds(10)), [], (.connected, false)),
        // No check came for so long that the machine must have slept.
        Row(.connected, .checked, seen: .time(.seconds(31)), [.probe], (.probing, false)),
        Row(.connected, .checked, seen: .time(.seconds(60)), [doubted, .probe], (.healing, true)),
        Row(.connected, .checked, seen: .silentPeer, [.retry([peer])], (.connected, false)),
        Row(.healing, .checked, seen: .silentPeer, [.probe], (.healing, true)),
        Row(.healing, .checked, seen: .bytes, [proven], (.connected, false)),
        Row(.listening, .checked, [], (.listening, true)),
        Row(.listening, .checked, seen: .bytes, [], (.listening, true)),
        Row(.listening, .checked, seen: .handshake, [], (.listening, true)),
        Row(.listening, .checked, seen: .packet, [proven], (.connected, false)),
        Row(.peerCame, .checked, seen: .time(.seconds(600)), [], (.connected, false)),
        Row(.asleep, .checked, seen: .bytes, [], (.paused, false)),
        Row(.offline, .checked, seen: .bytes, [], (.paused, true)),
        Row(.reconfiguring, .checked, seen: .bytes, [], (.reconfiguring, true)),
    ]

    static let pauses: [Row] = [
        Row(.connected, .sleep, quiet, (.paused, false)),
        Row(.connected, .wake, [], (.connected, false)),
        Row(.connected, .path(.none), doubtedPause, (.paused, true)),
        Row(.connected, .path(.same), [], (.connected, false)),
        Row(.connected, .path(.other), resumed, (.probing, false)),
        Row(.asleep, .sleep, [], (.paused, false)),
        Row(.asleep, .path(.none), [doubted], (.paused, true)),
        Row(.asleep, .path(.other), [], (.paused, false)),
        Row(.asleep, .wake, resumed, (.probing, false)),
        Row(.offline, .path(.none), [], (.paused, true)),
        Row(.offline, .sleep, [], (.paused, true)),
        Row(.offline, .wake, [], (.paused, true)),
        Row(.offline, .path(.same), resumed, (.healing, true)),
        Row(.offline, .path(.other), resumed, (.healing, true)),
        Row(.asleepOffline, .wake, [], (.paused, true)),
        Row(.asleepOffline, .path(.other), [], (.paused, true)),
        Row(.connectingOffline, .path(.other), resumed, (.connecting, true)),
        Row(.listening, .path(.none), quiet, (.paused, true)),
        Row(.listening, .path(.other), resumed, (.listening, true)),
        Row(.listeningOffline, .path(.other), resumed, (.listening, true)),
        Row(.peerCame, .sleep, quiet, (.paused, false)),
        Row(.peerCame, .path(.other), resumed, (.connected, false)),
        Row(.peerCame, .path(.none), doubtedPause, (.paused, true)),
        Row(.peerCameOffline, .path(.other), resumed, (.listening, true)),
    ]

    static let reconfigurations: [Row] = [
        Row(.connected, .reconfigurationStarted, [doubted], (.reconfiguring, true)),
        Row(.offline, .reconfigurationStarted, [], (.reconfiguring, true)),
        Row(.peerCame, .reconfigurationStarted, [doubted], (.reconfiguring, true)),
        Row(.reconfiguring, reconfigured(), [.requestHandshakes, .restart, .startChecks], (.healing, true)),
        Row(
            .reconfiguring, reconfigured(hasMoved: true), [.resolve, .requestHandshakes, .restart, .startChecks],
            (.healing, true)),
        Row(
            .reconfiguring, reconfigured(hasEndpoints: false), [.requestHandshakes, .restart, .startChecks],
            (.listening, true)),
        Row(.reconfiguring, .reconfigurationFailed, [.restart, .startChecks], (.healing, true)),
        Row(.reconfiguring, .sleep, quiet, (.reconfiguring, true)),
        Row(.reconfiguring, .path(.none), quiet, (.reconfiguring, true)),
        Row(.reconfiguring, .path(.other), resumed, (.reconfiguring, true)),
        Row(.reconfiguringAsleep, reconfigured(), quiet, (.paused, true)),
        Row(.reconfiguringAsleep, .reconfigurationFailed, [], (.paused, true)),
        Row(.reconfiguringAsleep, .wake, resumed, (.reconfiguring, true)),
        Row(
            .reconfiguringConnecting, reconfigured(), [.requestHandshakes, .restart, .startChecks], (.connecting, true)),
        Row(
            .reconfiguringListening, reconfigured(), [.requestHandshakes, .restart, .startChecks], (.healing, true)),
        Row(.reconfiguringListening, .reconfigurationFailed, [.restart, .startChecks], (.listening, true)),
        Row(.reconfiguringPeerCame, .reconfigurationFailed, [.restart, .startChecks], (.listening, true)),
    ]

    @Test("Each row holds", arguments: starts + checks + pauses + reconfigurations)
    func row(_ row: Row) {
        var script = row.situation.script
        row.seen.apply(to: &script)
        #expect(script.hand(row.event) == row.actions)
        #expect(script.lifecycle.state == row.state)
        #expect(script.lifecycle.isReasserting == row.isReasserting)
    }

    @Test("A stop ends each state without an action, and nothing follows it", arguments: Situation.allCases)
    func stop(_ situation: Situation) {
        var script = situation.script
        #expect(script.hand(.stop).isEmpty)
        #expect(script.lifecycle.state == .stopped)
        #expect(script.lifecycle.nextCheck == nil)
        script.receivedBytes += 100
        let events: [Event] = [
            .checked, .restarted, .sleep, .wake, .path(.none), .path(.other), .reconfigurationStarted,
            Self.reconfigured(), .reconfigurationFailed, Self.started(), .stop,
        ]
        for event in events { #expect(script.hand(event).isEmpty, "\(event)") }
        #expect(script.lifecycle.state == .stopped)
    }

    @Test("Only a tunnel that is up, and not being reconfigured, can be reconfigured", arguments: Situation.allCases)
    func canReconfigure(_ situation: Situation) {
        let isUp = ![.new, .newWithoutEndpoint, .waiting, .waitingOffline].contains(situation)
        let isReconfiguring = situation.rawValue.hasPrefix("reconfiguring")
        #expect(situation.script.lifecycle.canReconfigure == (isUp && !isReconfiguring))
    }

    @Test("The time to the next check follows from the state")
    func nextCheck() {
        let expected: [(Situation, Duration?)] = [
            (.new, nil), (.waiting, .milliseconds(1)), (.connecting, .milliseconds(250)),
            (.listening, .milliseconds(250)), (.peerCame, nil), (.connected, .seconds(10)), (.asleep, nil),
            (.offline, nil), (.healing, .milliseconds(250)), (.reconfiguring, nil),
        ]
        for (situation, interval) in expected {
            #expect(situation.script.lifecycle.nextCheck == interval, "\(situation)")
        }
    }

    @Test("A start notices a handshake within a quarter of the time that it took, and checks at most 50 times a second")
    func handshakeChecks() {
        var script = Situation.waiting.script
        let begun = script.now
        var checks = 0
        while let delay = script.lifecycle.nextCheck, script.now - begun < .seconds(1) {
            let elapsed = script.now - begun
            #expect(delay <= max(elapsed / 4, .milliseconds(1)), "\(elapsed)")
            #expect(delay <= .milliseconds(20))
            #expect(elapsed < .milliseconds(80) || delay == .milliseconds(20))
            script.now += delay
            #expect(script.hand(.checked).isEmpty)
            checks += 1
        }
        #expect(checks < 70, "\(checks) checks in the first second")
    }

    @Test("An idle tunnel is checked once a minute, and as usual from its next packet on")
    func rests() {
        var script = Situation.connected.script
        (script.hasTraffic, script.isOwed) = (false, false)
        var (begun, checks) = (script.now, 0)
        while script.now - begun < .seconds(3600), let delay = script.lifecycle.nextCheck {
            script.now += delay
            #expect(script.hand(.checked).isEmpty)
            checks += 1
        }
        #expect(checks <= 62, "\(checks) checks")
        #expect(script.lifecycle.awaitsPacket)
        // A packet that is not answered.
        script.now += .seconds(59)
        script.isOwed = true
        #expect(script.hand(.packetPassed) == [.startChecks])
        #expect(!script.lifecycle.awaitsPacket)
        #expect(script.hand(.packetPassed).isEmpty)
        begun = script.now
        while !script.lifecycle.isReasserting, script.now - begun < .seconds(600),
            let delay = script.lifecycle.nextCheck
        {
            script.now += delay
            _ = script.hand(.checked)
        }
        #expect(script.now - begun >= .seconds(60))
        #expect(script.now - begun <= ConnectivityOptions().timeToNotice)
    }

    @Test("An idle tunnel that wakes late after its check was due has slept, and is probed")
    func sleepsAtRest() {
        var script = Situation.connected.script
        (script.hasTraffic, script.isOwed) = (false, false)
        for _ in 0..<3 {
            script.now += script.lifecycle.nextCheck ?? .zero
            #expect(script.hand(.checked).isEmpty)
        }
        script.now += .seconds(600)
        #expect(script.hand(.checked) == [Self.doubted, .probe])
    }

    /// A connected tunnel after this number of checks without traffic; it rests from the second one on.
    private static func idle(checks: Int = 3) -> LifecycleScript {
        var script = Situation.connected.script
        (script.hasTraffic, script.isOwed) = (false, false)
        for _ in 0..<checks {
            script.now += script.lifecycle.nextCheck ?? .zero
            #expect(script.hand(.checked).isEmpty)
        }
        return script
    }

    @Test("A tunnel that must not rest is checked as usual")
    func neverRests() {
        var script = Self.idle(checks: 2)
        #expect(script.lifecycle.nextCheck == .seconds(60))
        script = Self.idle(checks: 0)
        script.mayRest = false
        for _ in 0..<10 {
            #expect(script.lifecycle.nextCheck == .seconds(10))
            #expect(!script.lifecycle.awaitsPacket)
            script.now += .seconds(10)
            #expect(script.hand(.checked).isEmpty)
        }
    }

    @Test(
        "Packets that WireGuard itself sends during a rest are noticed in time if they get no answer",
        arguments: [false, true])
    func sendsAtRest(_ isSeenEarly: Bool) {
        var script = Self.idle()
        let begun = script.now
        script.hasTraffic = true
        if isSeenEarly {
            // Another event observes the traffic before the check does.
            script.now += .seconds(1)
            #expect(script.hand(.path(.same)).isEmpty)
            script.hasTraffic = false
        }
        script.isOwed = true
        script.now = begun + .seconds(60)
        #expect(script.hand(.checked) == [.probe])
        while !script.lifecycle.isReasserting, script.now - begun < .seconds(600),
            let delay = script.lifecycle.nextCheck
        {
            script.now += delay
            _ = script.hand(.checked)
        }
        #expect(script.now - begun <= ConnectivityOptions().timeToNotice)
    }

    @Test("Sleep during a rest is not excluded, so the tunnel is probed although no event reported the sleep")
    func sleepsWithinRest() {
        for (asleep, expected): (Duration, [Action]) in [(.zero, []), (.seconds(15), []), (.seconds(40), [.probe])] {
            var script = Self.idle()
            script.now += .seconds(60)
            script.asleep += asleep
            #expect(script.hand(.checked) == expected, "\(asleep)")
        }
        // A packet ends the rest after the sleep.
        var script = Self.idle()
        script.now += .seconds(50)
        script.asleep += .seconds(40)
        #expect(script.hand(.packetPassed) == [.startChecks])
        script.now += .seconds(10)
        #expect(script.hand(.checked) == [.probe])
    }

    @Test("The checks for a peer become rarer, and start from the first interval after a pause")
    func listensWithPatience() {
        var script = Situation.listening.script
        _ = script.hand(.checked)
        #expect(script.lifecycle.nextCheck == Duration.milliseconds(250) * 1.25)
        for _ in 0..<20 { _ = script.hand(.checked) }
        #expect(script.lifecycle.nextCheck == .seconds(5))
        _ = script.hand(.path(.other))
        #expect(script.lifecycle.nextCheck == .milliseconds(250))
    }

    @Test("Bytes received during a pause do not end the doubt that began with it")
    func pauseWithoutProof() {
        var script = Situation.peerCameOffline.script
        script.receivedBytes += 100
        _ = script.hand(.path(.other))
        #expect(script.hand(.checked).isEmpty)
        script.receivedBytes += 100
        #expect(script.hand(.checked) == [Self.proven])
    }

    @Test("A peer that connected just before a pause counts after it")
    func peerBeforePause() {
        var script = Situation.listening.script
        Seen.packet.apply(to: &script)
        _ = script.hand(.sleep)
        _ = script.hand(.wake)
        #expect(script.hand(.checked) == [Self.proven])
    }

    @Test("A tunnel that was never proven is connected once a peer of its new configuration connects")
    func provenByPeer() {
        var script = Situation.reconfiguringConnecting.script
        _ = script.hand(Self.reconfigured(hasEndpoints: false))
        #expect(script.lifecycle.state == .listening)
        Seen.packet.apply(to: &script)
        #expect(script.hand(.checked) == [Self.proven])
        #expect(script.lifecycle.state == .connected)
    }

    @Test("Silent peers are retried no more often than healing that does not help")
    func retries() {
        var script = Situation.connected.script
        Seen.silentPeer.apply(to: &script)
        var times: [Duration] = []
        for _ in 0..<20 {
            script.now += .seconds(10)
            script.receivedBytes += 100
            if script.hand(.checked) == [.retry([Self.peer])] { times.append(script.now) }
        }
        #expect(times == [.seconds(10), .seconds(90), .seconds(170)])
    }

    @Test("Each third of the time limit moves a start to the next endpoint")
    func endpointsInTurn() {
        var script = Situation.waiting.script
        var attempts: [Action] = []
        while script.lifecycle.state == .connecting {
            script.now += .milliseconds(20)
            attempts += script.hand(.checked)
        }
        #expect(attempts == [.nextEndpoint(attempt: 1), .nextEndpoint(attempt: 2)])
        #expect(script.now == .seconds(15))
    }

    @Test("A dead tunnel is healed step by step, and then ends if its configuration ends it")
    func healsAndGivesUp() {
        var script = LifecycleScript(ConnectivityOptions(endWhenDead: .afterHealing))
        _ = script.hand(Self.started(waits: true))
        Seen.packet.apply(to: &script)
        _ = script.hand(.checked)
        var actions: [Action] = []
        while let delay = script.lifecycle.nextCheck {
            script.now += delay
            actions += script.hand(.checked).filter { $0 != .probe }
        }
        #expect(actions == [Self.doubted, .heal(.rebind), .heal(.resolve), .heal(.handshake), .giveUp])
        #expect(script.lifecycle.state == .healing)
    }

    @Test("Without a monitor, only the end of doubt is detected")
    func withoutMonitor() {
        var script = LifecycleScript(ConnectivityOptions(isEnabled: false, endWhenDead: .atOnce))
        _ = script.hand(Self.started(waits: true))
        Seen.packet.apply(to: &script)
        #expect(script.hand(.checked) == [.startChecks])
        #expect(script.lifecycle.nextCheck == nil)
        _ = script.hand(.path(.none))
        _ = script.hand(.path(.other))
        while let delay = script.lifecycle.nextCheck, script.now < .seconds(600) {
            script.now += delay
            #expect(!script.hand(.checked).contains(.giveUp))
        }
        #expect(script.now >= .seconds(600), "the doubt does not end without proof")
        script.receivedBytes += 100
        #expect(script.hand(.checked) == [Self.proven])
        #expect(script.lifecycle.nextCheck == nil)
    }
}
