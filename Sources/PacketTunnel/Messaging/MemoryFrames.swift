// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Frames that a task of this process makes, as fast as they are taken.
final class MemoryFrames: MessageFrames {
    private let handoff = Handoff<[UInt8]>()
    private let task = Mutex<Task<Void, Never>?>(nil)

    func start(_ body: @escaping @Sendable (Handoff<[UInt8]>) async -> Void) {
        let handoff = handoff
        task.withLock { $0 = Task { await body(handoff) } }
    }

    func next() async throws -> [UInt8]? { await handoff.next() }

    func cancel() {
        handoff.cancel()
        task.withLock { $0 }?.cancel()
    }

    deinit {
        cancel()
    }
}
