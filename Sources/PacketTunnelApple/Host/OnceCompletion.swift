// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization

/// A completion handler of the system, called once however often it is asked to.
///
/// The system takes the call on any thread.
final class OnceCompletion<Value>: @unchecked Sendable {
    private let handler: (Value) -> Void
    private let isDone = Atomic<Bool>(false)

    init(_ handler: @escaping (Value) -> Void) {
        self.handler = handler
    }

    func call(_ value: Value) {
        if !isDone.exchange(true, ordering: .acquiringAndReleasing) { handler(value) }
    }
}
