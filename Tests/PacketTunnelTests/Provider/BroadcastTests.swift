// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import PacketTunnel

@Suite("Broadcast")
struct BroadcastTests {
    @Test("A follower gets the value there is, every one after it, and the end")
    func following() async {
        let broadcast = Broadcast(1)
        let early = broadcast.follow()
        broadcast.send(2)
        let late = broadcast.follow()
        broadcast.finish(with: 3)
        broadcast.send(4)
        #expect(await values(of: early) == [1, 2, 3])
        #expect(await values(of: late) == [2, 3])
        #expect(await values(of: broadcast.follow()) == [3])
    }

    /// Passing a value to a waiting task takes the same locks of the runtime as cancelling it.
    @Test("Followers that are cancelled during an update do not block others, and are removed", .timeLimit(.minutes(3)))
    func cancelledWhileSending() async {
        let broadcast = Broadcast(0)
        for round in 0..<2_000 {
            let followers = (0..<4).map { _ in
                Task { for await _ in broadcast.follow() {} }
            }
            let sender = Task.detached { for value in 0..<8 { broadcast.send(round * 8 + value) } }
            for follower in followers { follower.cancel() }
            for follower in followers { await follower.value }
            await sender.value
        }
        #expect(broadcast.followerCount == 0)
        #expect(broadcast.current == 15_999)
    }

    private func values(of stream: AsyncStream<Int>) async -> [Int] {
        var values: [Int] = []
        for await value in stream { values.append(value) }
        return values
    }
}
