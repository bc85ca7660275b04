// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

@Suite("Handing elements from task to task")
struct HandoffTests {
    @Test("All elements of several senders arrive, each sender's in order")
    func order() async {
        let handoff = Handoff<(sender: Int, number: Int)>()
        await withTaskGroup(of: Void.self) { group in
            for sender in 0..<4 {
                group.addTask {
                    for number in 0..<250 { #expect(await handoff.send((sender, number))) }
                }
            }
            var next = [0, 0, 0, 0]
            for _ in 0..<1_000 {
                guard let element = await handoff.next() else { break }
                #expect(element.number == next[element.sender])
                next[element.sender] += 1
            }
            #expect(next == [250, 250, 250, 250])
        }
    }

    @Test("After the end the present elements can be taken, and after a cancellation not")
    func ends() async {
        let finished = Handoff<Int>()
        #expect(await finished.send(1))
        finished.finish()
        #expect(await finished.send(2) == false)
        #expect(await finished.next() == 1)
        #expect(await finished.next() == nil)

        let cancelled = Handoff<Int>()
        #expect(await cancelled.send(1))
        cancelled.cancel()
        #expect(await cancelled.next() == nil)
        #expect(await cancelled.send(2) == false)
    }

    @Test("A waiter continues when the other side ends the handoff")
    func waiters() async {
        let handoff = Handoff<Int>()
        #expect(await handoff.send(1))
        async let blocked = handoff.send(2)
        async let alsoBlocked = handoff.send(3)
        handoff.cancel()
        #expect(await blocked == false)
        #expect(await alsoBlocked == false)

        let empty = Handoff<Int>()
        async let taken = empty.next()
        empty.finish()
        #expect(await taken == nil)
    }
}
