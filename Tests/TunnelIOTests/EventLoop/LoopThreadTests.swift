// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization
import Testing

@testable import TunnelIO

@Suite("Loop thread", .timeLimit(.minutes(1)))
struct LoopThreadTests {
    @Test("A thread that joins itself while another joins it returns immediately")
    func twoJoiners() throws {
        let isJoining = Event()
        let mayEnd = Event()
        let itself = Mutex<LoopThread?>(nil)
        let ended = Event()
        let thread = try LoopThread(name: "joined") {
            _ = mayEnd.wait(timeout: .seconds(20))
            itself.withLock { $0 }?.join()
            ended.signal()
        }
        itself.withLock { $0 = thread }
        let joiner = try LoopThread(name: "joiner") {
            isJoining.signal()
            thread.join()
        }
        #expect(isJoining.wait(timeout: .seconds(20)))
        mayEnd.signal()
        #expect(ended.wait(timeout: .seconds(20)))
        joiner.join()
        thread.join()
    }

    @Test("A thread that is never joined is freed when it ends")
    func unjoined() throws {
        let finished = PacketTunnelTesting.Latch(count: 200)
        for _ in 0..<200 {
            _ = try LoopThread(name: "alone") { finished.countDown() }
        }
        #expect(finished.wait(timeout: .seconds(20)))
    }
}
