// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import PacketTunnelLinux

@Suite("Problems of a tunnel's network")
struct NetworkProblemsTests {
    @Test("A problem keeps the time at which it was found first, until its part is in effect again")
    func since() {
        var problems = NetworkProblems()
        let first = problems.update([("rule", "rule: no"), ("firewall", "firewall: no nft")], now: 10)
        #expect(first.new.map(\.what) == ["rule: no", "firewall: no nft"])
        #expect(first.solved.isEmpty)
        let second = problems.update([("firewall", "firewall: nft hangs"), ("route", "route: no")], now: 20)
        #expect(second.new == [NetworkProblem(what: "route: no", since: 20)])
        #expect(second.solved == ["rule"])
        #expect(
            problems.list == [
                NetworkProblem(what: "firewall: nft hangs", since: 10), NetworkProblem(what: "route: no", since: 20),
            ])
        #expect(problems.update([], now: 30).solved == ["firewall", "route"])
        #expect(problems.list.isEmpty)
        #expect(problems.update([("rule", "rule: no")], now: 40).new == [NetworkProblem(what: "rule: no", since: 40)])
    }

    @Test("A known problem stays until the end of a check that has not found it yet")
    func incomplete() {
        var problems = NetworkProblems()
        _ = problems.update([("rule", "rule: no")], now: 1)
        let early = problems.update([("firewall", "firewall: nft hangs")], isComplete: false, now: 2)
        #expect(early.solved.isEmpty && early.new.map(\.since) == [2])
        #expect(problems.list.map(\.since) == [2, 1])
        let end = problems.update([("firewall", "firewall: no nft"), ("rule", "rule: no")], now: 3)
        #expect(end.solved.isEmpty && end.new.isEmpty)
        #expect(problems.list.map(\.since) == [2, 1])
    }

    @Test("A part that is found twice in one check is one problem")
    func twice() {
        var problems = NetworkProblems()
        _ = problems.update([("rule", "rule: no"), ("rule", "rule: never")], now: 1)
        #expect(problems.list == [NetworkProblem(what: "rule: no", since: 1)])
    }
}
