// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing
import TunnelServer

@Suite struct ReconcilerTests {
    private struct Failure: Error {}
    private typealias Numbers = Reconciler<String, Int>

    /// Applies an update to a dictionary.
    private func apply(_ update: Numbers.Update, to system: inout [String: Int]) -> [String: String] {
        if update.isComplete { system = [:] }
        for (key, value) in update.changes { system[key] = value }
        return [:]
    }

    @Test("A value stays applied while other keys are updated, and counts as unknown after a failure")
    func applied() {
        var numbers = Numbers(isKnown: false)
        numbers.setDesired(1, for: "a")
        let first = numbers.begin()
        #expect(first.isComplete && !numbers.isApplied("a"))
        numbers.finish(first)
        #expect(numbers.isApplied("a"))
        numbers.setDesired(2, for: "b")
        let second = numbers.begin()
        #expect(numbers.isApplied("a") && !numbers.isApplied("b"))
        numbers.setDesired(3, for: "a")
        #expect(!numbers.isApplied("a"))
        numbers.setDesired(1, for: "a")
        numbers.invalidate()
        #expect(!numbers.isApplied("a"))
        let third = numbers.begin()
        #expect(third.isComplete && third.changes == ["a": 1, "b": 2] && !numbers.isApplied("a"))
        numbers.finish(third, refused: ["b": "no"])
        #expect(numbers.isApplied("a") && !numbers.isApplied("b") && !second.isComplete)
    }

    @Test("An update has the differences only, and one without differences is not run")
    func differences() {
        var (numbers, system) = (Numbers(), [String: Int]())
        numbers.setDesired(1, for: "a")
        numbers.setDesired(2, for: "b")
        #expect(!numbers.isCurrent)
        numbers.update { apply($0, to: &system) }
        #expect(numbers.isCurrent && system == ["a": 1, "b": 2] && numbers.present == system)
        numbers.setDesired(3, for: "b")
        numbers.setDesired(nil, for: "a")
        numbers.update { update in
            #expect(update.changes == ["a": nil, "b": 3] && !update.isComplete)
            #expect(update.previous == ["a": 1, "b": 2])
            return apply(update, to: &system)
        }
        #expect(system == ["b": 3])
        numbers.setDesired(4, for: "b")
        numbers.setDesired(3, for: "b")
        numbers.update { _ in
            Issue.record("an update without differences was run")
            return [:]
        }
        #expect(numbers.isCurrent)
    }

    @Test("Nothing counts as applied after a failure, and the next update is complete")
    func failure() throws {
        var (numbers, system) = (Numbers(), [String: Int]())
        numbers.setDesired(1, for: "a")
        numbers.update { apply($0, to: &system) }
        numbers.setDesired(2, for: "b")
        #expect(throws: Failure.self) {
            try numbers.update { (update) throws(Failure) in
                system["c"] = 9
                throw Failure()
            }
        }
        #expect(!numbers.isCurrent && numbers.present == nil && numbers.desired == ["a": 1, "b": 2])
        numbers.update { update in
            #expect(update.isComplete && update.changes == ["a": 1, "b": 2])
            return apply(update, to: &system)
        }
        #expect(numbers.isCurrent && system == ["a": 1, "b": 2])
        numbers.invalidate()
        #expect(!numbers.isCurrent)
        numbers.update { update in
            #expect(update.isComplete)
            return apply(update, to: &system)
        }
        #expect(numbers.isCurrent)
    }

    @Test("A value that changes while an update runs is part of the next update")
    func meanwhile() {
        var numbers = Numbers()
        numbers.setDesired(1, for: "a")
        let update = numbers.begin()
        numbers.setDesired(2, for: "a")
        #expect(numbers.present == nil)
        numbers.finish(update)
        #expect(!numbers.isCurrent && numbers.begin().changes == ["a": 2])
    }

    @Test("A refused value has no place in the system, and is tried again when asked for or replaced")
    func refused() {
        var numbers = Numbers()
        numbers.setDesired(1, for: "a")
        numbers.setDesired(5, for: "b")
        numbers.update { _ in [:] }
        numbers.setDesired(2, for: "a")
        numbers.update { _ in ["a": "even"] }
        #expect(numbers.isCurrent && numbers.refused == ["a": "even"] && numbers.present == ["b": 5])
        numbers.update(retryingRefused: false) { _ in
            Issue.record("a refused value was tried again")
            return [:]
        }
        numbers.update { update in
            #expect(update.changes == ["a": 2])
            return ["a": "even"]
        }
        numbers.setDesired(3, for: "a")
        #expect(numbers.refused.isEmpty && !numbers.isCurrent)
        numbers.update(retryingRefused: false) { _ in [:] }
        #expect(numbers.present == ["a": 3, "b": 5])
        // So it is in an update of everything.
        numbers.invalidate()
        numbers.update { _ in ["b": "odd"] }
        #expect(numbers.present == ["a": 3] && numbers.refused == ["b": "odd"] && numbers.isCurrent)
    }

    @Test(
        "A random course of changes, refusals, failures and invalidations leaves the system's state", arguments: 0..<50
    )
    func random(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var (numbers, system) = (Numbers(isKnown: false), ["z": 1])
        var running: Numbers.Update?
        for _ in 0..<300 {
            let key = try #require("abcdef".randomElement(using: &random)).description
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let value = Bool.random(using: &random) ? Int.random(in: 0..<3, using: &random) : nil
                numbers.setDesired(value, for: key)
            case 5:
                numbers.invalidate()
                system["z"] = Int.random(in: 0..<3, using: &random)
            case 6: running = numbers.begin(retryingRefused: Bool.random(using: &random))
            default:
                guard let update = running else { continue }
                running = nil
                guard Int.random(in: 0..<4, using: &random) > 0 else {
                    // It failed after some of its changes.
                    for (key, value) in update.changes.prefix(1) { system[key] = value }
                    numbers.invalidate()
                    continue
                }
                _ = apply(update, to: &system)
                // The system refuses the number 2.
                let refused = update.changes.compactMapValues { $0 == 2 ? "two" : nil }
                for key in refused.keys { system[key] = nil }
                numbers.finish(update, refused: refused)
            }
            guard let present = numbers.present else { continue }
            #expect(present == system)
            let wanted = numbers.desired.filter { numbers.refused[$0.key] == nil }
            #expect(numbers.isCurrent == (wanted == system))
            for key in "abcdef".map(\.description) {
                #expect(numbers.isApplied(key) == (numbers.desired[key] == system[key]))
            }
        }
        for _ in 0..<2 {
            numbers.update { update in
                _ = apply(update, to: &system)
                return [:]
            }
        }
        #expect(numbers.isCurrent && numbers.present == system && numbers.desired == system)
    }
}
