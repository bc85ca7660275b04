// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOPosix

/// Rounds of the event loops of the tests.
enum MultiThreadedEventLoopGroupProbe {
    /// Returns when each event loop has polled its sockets and run its due tasks.
    static func round() async throws {
        for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
            try await loop.scheduleTask(in: .milliseconds(1)) {}.futureResult.get()
        }
    }
}
