// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import PacketTunnel

/// Every state with every event, on the value that decides.
@Suite("The life of a tunnel, state by state")
struct TunnelLifecycleTests {
    typealias Event = TunnelLifecycle.Event
    typealias Effect = TunnelLifecycle.Effect

    static let broken = TunnelError(.serverUnreachable, "no answer")

    /// The way into a state; the active run has number 1 unless it began blocked.
    enum Situation: String, CaseIterable {
        case down, starting, startingWithSettings, restarting, up, strict, reasserting
        case awaitingStart, stopping, failing, tearingDown, queued, blocked

        var lifecycle: TunnelLifecycle {
            var lifecycle = TunnelLifecycle()
            for event in events { _ = lifecycle.handle(event) }
            return lifecycle
        }

        /// The run that events are about.
        var run: TunnelLifecycle.Run { self == .restarting ? 2 : 1 }

        private var events: [Event] {
            switch self {
            case .down: []
            case .starting: [.start(1, .routeBased)]
            case .startingWithSettings: [.start(1, .routeBased), .settingsInForce(1, .routeBased)]
            case .restarting: Self.blocked.events + [.start(2, .routeBased), .settingsInForce(2, .routeBased)]
            case .up: Self.startingWithSettings.events + [.startReturned(1, nil)]
            case .strict: [.start(1, .enforcedRoutes), .settingsInForce(1, .enforcedRoutes), .startReturned(1, nil)]
            case .reasserting: Self.up.events + [.reasserting(1, true)]
            case .awaitingStart: Self.startingWithSettings.events + [.stop(.userInitiated)]
            case .stopping: Self.up.events + [.stop(.userInitiated)]
            case .failing: Self.strict.events + [.cancel(1, broken)]
            case .tearingDown: Self.stopping.events + [.stopReturned(1)]
            case .queued: Self.stopping.events + [.start(2, .routeBased)]
            case .blocked: Self.failing.events + [.stopReturned(1), .tornDown(1)]
            }
        }
    }

    /// A column of the table. Events that name a run are about the one at work.
    static func columns(_ run: TunnelLifecycle.Run) -> [Event] {
        [
            .start(9, .routeBased), .startReturned(run, nil), .startReturned(run, broken), .cancel(run, broken),
            .reasserting(run, true), .reasserting(run, false), .stop(.userInitiated), .stopReturned(run),
            .tornDown(run),
            .deadline(run, .start), .deadline(run, .stop), .deadline(run, .tearDown),
        ]
    }

    /// The status after each event: d(own) c(onnecting) u(p) r(easserting) e(nding) b(locked); capital if the event has no
    /// effect.
    static let table: [(Situation, String)] = [
        // start ok fail cancel re+ re- stop stopped torn Dstart Dstop Dtear
        (.down, "cDDD DDd DD DDD"),
        (.starting, "ceee CCe CC eCC"),
        (.startingWithSettings, "cuee CCe CC eCC"),
        (.restarting, "cuee CCe CC eCC"),
        (.up, "uUUe rUe UU UUU"),
        (.strict, "uUUe rUe UU UUU"),
        (.reasserting, "rRRe Rue RR RRR"),
        (.awaitingStart, "eeeE EEE EE EeE"),
        (.stopping, "eEEE EEE eE EeE"),
        (.failing, "eEEE EEE eE EeE"),
        (.tearingDown, "eEEE EEE Ed EEd"),
        (.queued, "eEEE EEe eE EeE"),
        (.blocked, "cBBB BBe BB BBB"),
    ]

    static let letters: [TunnelStatus: Character] = [
        .disconnected: "d", .connecting: "c", .connected: "u", .reasserting: "r", .disconnecting: "e", .blocked: "b",
    ]

    @Test("Each event has the outcome of the table", arguments: Situation.allCases)
    func everyEvent(_ situation: Situation) throws {
        let row = try #require(Self.table.first { $0.0 == situation }?.1).filter { $0 != " " }
        let events = Self.columns(situation.run)
        try #require(row.count == events.count)
        for (expected, event) in zip(row, events) {
            var lifecycle = situation.lifecycle
            let before = lifecycle.update
            let effects = lifecycle.handle(event)
            let letter = try #require(Self.letters[lifecycle.status])
            #expect(letter == Character(expected.lowercased()), "\(event)")
            if expected.isUppercase {
                #expect(effects.isEmpty, "\(event)")
                #expect(lifecycle.update == before, "\(event)")
            } else {
                #expect(!effects.isEmpty, "\(event)")
            }
            // The last published status is the present one.
            let published = effects.compactMap { if case .publish(let update) = $0 { update } else { nil } }
            #expect(published.last ?? before == lifecycle.update, "\(event)")
        }
    }

    @Test("Events of another run are ignored", arguments: Situation.allCases)
    func stale(_ situation: Situation) {
        for event in Self.columns(77) {
            switch event {
            case .start, .stop: continue
            default:
                var lifecycle = situation.lifecycle
                #expect(lifecycle.handle(event).isEmpty, "\(event)")
                #expect(lifecycle.update == situation.lifecycle.update)
            }
        }
    }

    @Test(
        "A state has the leak policy's phase",
        arguments: zip(
            Situation.allCases,
            [
                .off, .connecting, .up, .up, .up, .up, .reasserting, .blocked, .blocked, .blocked, .blocked, .blocked,
                .blocked,
            ]
                as [LeakPolicy.Phase]))
    func phases(_ situation: Situation, _ phase: LeakPolicy.Phase) {
        #expect(situation.lifecycle.leakPhase == phase)
    }

    @Test("A second start is refused, and the first continues")
    func doubleStart() {
        var lifecycle = Situation.starting.lifecycle
        let effects = lifecycle.handle(.start(2, .routeBased))
        #expect(Self.ends(effects).map(\.1?.code) == [.alreadyRunning])
        #expect(lifecycle.handle(.settingsInForce(1, .routeBased)).isEmpty)
        #expect(Self.ends(lifecycle.handle(.startReturned(1, nil))).map(\.0) == [1])
        #expect(lifecycle.status == .connected)
    }

    @Test("A start while it stops begins once it has stopped, and a stop takes it back")
    func queuedStart() {
        var lifecycle = Situation.queued.lifecycle
        _ = lifecycle.handle(.stopReturned(1))
        #expect(lifecycle.handle(.tornDown(1)).contains(.begin(2, .routeBased)))
        #expect(lifecycle.status == .connecting)

        lifecycle = Situation.queued.lifecycle
        #expect(Self.ends(lifecycle.handle(.stop(.userInitiated))).map(\.1?.code) == [.stopped])
        _ = lifecycle.handle(.stopReturned(1))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.status == .disconnected)

        lifecycle = Situation.queued.lifecycle
        #expect(Self.ends(lifecycle.handle(.deadline(2, .start))).map(\.1?.code) == [.startTimedOut])
        #expect(Self.ends(lifecycle.handle(.start(3, .routeBased))).isEmpty)
    }

    @Test("A failure under a strict policy leaves the guard, until the user stops")
    func blocking() {
        var lifecycle = Situation.failing.lifecycle
        #expect(lifecycle.handle(.stopReturned(1)).contains(.tearDown(1, leavingBlocked: true)))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.update == TunnelStatusUpdate(.blocked, error: Self.broken))
        #expect(lifecycle.handle(.stop(.userInitiated)).contains(.tearDown(1, leavingBlocked: false)))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.update == TunnelStatusUpdate(.disconnected))
    }

    @Test("A stop while the guard is being left in place takes it away as well")
    func stopWhileBlocking() {
        var lifecycle = Situation.failing.lifecycle
        _ = lifecycle.handle(.stopReturned(1))
        _ = lifecycle.handle(.stop(.userInitiated))
        #expect(lifecycle.handle(.tornDown(1)) == [.tearDown(1, leavingBlocked: false)])
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.status == .disconnected)
    }

    @Test("A start out of blocking keeps the guard's policy, and blocks again when it fails")
    func restartOutOfBlocking() {
        var lifecycle = Situation.blocked.lifecycle
        #expect(lifecycle.handle(.start(2, .routeBased)).contains(.begin(2, .enforcedRoutes)))
        #expect(lifecycle.leakPhase == .blocked)
        _ = lifecycle.handle(.startReturned(2, Self.broken))
        _ = lifecycle.handle(.tornDown(2))
        #expect(lifecycle.status == .blocked)
    }

    @Test(
        "A start that fails stays blocked under a policy that blocks, until the user stops",
        arguments: LeakPolicy.allCases, [Ending.throwing, .cancelling, .late, .withoutSettings])
    func failedStart(_ policy: LeakPolicy, _ ending: Ending) {
        var lifecycle = TunnelLifecycle()
        _ = lifecycle.handle(.start(1, policy))
        switch ending {
        case .throwing: _ = lifecycle.handle(.startReturned(1, Self.broken))
        case .cancelling: _ = lifecycle.handle(.cancel(1, Self.broken))
        case .late: _ = lifecycle.handle(.deadline(1, .start))
        case .withoutSettings: _ = lifecycle.handle(.startReturned(1, nil))
        }
        // One of these events is due.
        let effects = lifecycle.handle(.startReturned(1, Self.broken)) + lifecycle.handle(.stopReturned(1))
        let blocks = policy.blocksAfterFailure
        #expect(ending == .throwing || effects.contains(.tearDown(1, leavingBlocked: blocks)))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.status == (blocks ? .blocked : .disconnected))
        // The tunnel's networks were never known, unless the policy is for everything.
        #expect(lifecycle.leakPhase == (policy == .everything ? .blocked : blocks ? .connecting : .off))
        guard blocks else { return }
        #expect(lifecycle.handle(.stop(.userInitiated)).contains(.tearDown(1, leavingBlocked: false)))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.update == TunnelStatusUpdate(.disconnected))
    }

    /// The ways in which a start fails.
    enum Ending: CaseIterable {
        case throwing, cancelling, late, withoutSettings
    }

    @Test("A start that the user gives up blocks nothing", arguments: LeakPolicy.allCases)
    func stoppedStart(_ policy: LeakPolicy) {
        var lifecycle = TunnelLifecycle()
        _ = lifecycle.handle(.start(1, policy))
        _ = lifecycle.handle(.stop(.userInitiated))
        #expect(lifecycle.handle(.startReturned(1, Self.broken)).contains(.tearDown(1, leavingBlocked: false)))
        _ = lifecycle.handle(.tornDown(1))
        #expect(lifecycle.status == .disconnected)
    }

    @Test("Reasserting before the start succeeded is remembered")
    func earlyReasserting() {
        var lifecycle = Situation.startingWithSettings.lifecycle
        #expect(lifecycle.handle(.reasserting(1, true)).isEmpty)
        _ = lifecycle.handle(.startReturned(1, nil))
        #expect(lifecycle.status == .reasserting)
    }

    static func ends(_ effects: [Effect]) -> [(TunnelLifecycle.Run, TunnelError?)] {
        effects.compactMap { if case .endStart(let run, let error) = $0 { (run, error) } else { nil } }
    }
}

extension TunnelLifecycleTests {
    /// Random lives: events that a world could produce, in any order.
    @Test("After any events, each start ends once, each stop ends, and nothing is left", arguments: 0..<200)
    func randomLives(_ seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        var world = World()
        for _ in 0..<60 { world.act(&generator) }
        world.settle()
        #expect(world.problems.isEmpty, "\(world.problems)")
        #expect(world.starts.values.allSatisfy { $0 == 1 })
        #expect(world.waitingStops == 0)
        #expect(world.inForce.isEmpty)
        #expect([.disconnected, .blocked].contains(world.lifecycle.status))
        #expect(world.armed.isEmpty)
    }

    /// Carries out effects, and records violations.
    struct World {
        var lifecycle = TunnelLifecycle()
        /// How often each start has ended.
        var starts: [TunnelLifecycle.Run: Int] = [:]
        var waitingStops = 0
        var armed: Set<TunnelLifecycle.Effect> = []
        /// Providers' starts, stops and tear-downs that have not returned.
        var pending: [TunnelLifecycle.Event] = []
        var inForce: Set<TunnelLifecycle.Run> = []
        var stopped: Set<TunnelLifecycle.Run> = []
        var succeeded: Set<TunnelLifecycle.Run> = []
        var problems: [String] = []

        mutating func act(_ generator: inout SeededGenerator) {
            let run =
                TunnelLifecycle.Run(generator.int(in: 0...3)) + (starts.keys.max() ?? 0)
                - min(2, starts.keys.max() ?? 0)
            switch generator.int(in: 0..<10) {
            case 0...1: start(LeakPolicy.allCases[generator.int(in: 0..<3)])
            case 2: stop()
            case 3: handle(.cancel(run, TunnelLifecycleTests.broken))
            case 4: handle(.reasserting(run, generator.chance(0.5)))
            case 5: applySettings(LeakPolicy.allCases[generator.int(in: 0..<3)])
            case 6...7:
                guard !pending.isEmpty else { return }
                answer(pending.remove(at: generator.int(in: 0..<pending.count)), fails: generator.chance(0.4))
            default:
                guard let effect = armed.sorted(by: { "\($0)" < "\($1)" }).first,
                    case .arm(let run, let deadline) = effect
                else { return }
                armed.remove(effect)
                handle(.deadline(run, deadline))
            }
        }

        /// Stops it, lets everything return, and lets all time pass.
        mutating func settle() {
            stop()
            for _ in 0..<20 {
                while !pending.isEmpty { answer(pending.removeFirst(), fails: false) }
                for case .arm(let run, let deadline) in armed {
                    armed.remove(.arm(run, deadline))
                    handle(.deadline(run, deadline))
                }
            }
        }

        private mutating func start(_ policy: LeakPolicy) {
            let run = lifecycle.makeRun()
            starts[run] = 0
            handle(.start(run, policy))
        }

        private mutating func stop() {
            waitingStops += 1
            handle(.stop(.userInitiated))
        }

        private mutating func applySettings(_ policy: LeakPolicy) {
            guard let run = starts.keys.first(where: { lifecycle.isRunning($0) }) else { return }
            inForce.insert(run)
            handle(.settingsInForce(run, policy))
        }

        private mutating func answer(_ event: TunnelLifecycle.Event, fails: Bool) {
            if case .startReturned(let run, _) = event {
                if !fails { succeeded.insert(run) }
                handle(.startReturned(run, fails ? TunnelLifecycleTests.broken : nil))
            } else {
                handle(event)
            }
        }

        private mutating func handle(_ event: TunnelLifecycle.Event) {
            for effect in lifecycle.handle(event) {
                switch effect {
                case .begin(let run, _): pending.append(.startReturned(run, nil))
                case .stopProvider(let run, _):
                    if !stopped.insert(run).inserted { problems.append("stopped twice: \(run)") }
                    if !succeeded.contains(run) { problems.append("stopped without a start: \(run)") }
                    pending.append(.stopReturned(run))
                case .tearDown(let run, _):
                    inForce.remove(run)
                    pending.append(.tornDown(run))
                case .arm: armed.insert(effect)
                case .disarm(let run, let deadline): armed.remove(.arm(run, deadline))
                case .endStart(let run, _): starts[run, default: 0] += 1
                case .endStops: waitingStops = 0
                case .forget(let run):
                    armed = armed.filter { if case .arm(run, _) = $0 { false } else { true } }
                case .publish(let update):
                    if update.status == .blocked, lifecycle.leakPolicy == .routeBased { problems.append("blocked") }
                case .deliverEvents, .cancelStart, .endMessages, .abandon: break
                }
            }
        }
    }
}
