// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@Suite("Turns of two contenders")
struct TurnsTests {
    private final class Machine {
        var now = 0
        var order = ""
        /// The factor by which other load slows the machine, by turn.
        var slowdown: [Int] = []

        func send(_ name: String, _ nanoseconds: Int) -> (Int) throws -> Void {
            { [self] packets in
                let turn = order.count / 2
                order += name
                now += packets * nanoseconds * (turn < slowdown.count ? slowdown[turn] : 1)
            }
        }
    }

    @Test("The contenders alternate, each begins every second turn, and the time limit ends them")
    func order() {
        let machine = Machine()
        let turn = Turns.packets * 50
        let turns = Turns(5 * turn, clock: { machine.now }, machine.send("a", 20), machine.send("b", 30))
        #expect(machine.order == "abbaabbaab")
        #expect(turns.first == 20 && turns.second == 30 && turns.ratio == 1.5)
    }

    @Test("A load that lasts several turns changes the times, but not the ratio")
    func load() {
        let machine = Machine()
        machine.slowdown = [1, 9, 9, 9]
        let turns = Turns(0, clock: { machine.now }, machine.send("a", 20), machine.send("b", 30))
        #expect(machine.order.count == 6)
        #expect(turns.first == 180 && turns.second == 270 && turns.ratio == 1.5)
    }

    @Test("If packets are lost, there is no figure")
    func loss() {
        struct Lost: Error {}
        let turns = Turns(0, { _ in }, { _ in throw Lost() })
        #expect(turns.first.isNaN && turns.second.isNaN && turns.ratio.isNaN)
    }
}
