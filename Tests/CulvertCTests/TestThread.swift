// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// A thread that a test waits for.
struct TestThread {
    private let thread: LoopThread?

    init(_ body: @escaping @Sendable () -> Void) {
        thread = try? LoopThread(name: "test", body: body)
    }

    func join() { thread?.join() }
}

/// A tunnel's handle, which any thread may use.
struct SendableHandle: @unchecked Sendable {
    let value: OpaquePointer

    init(_ value: OpaquePointer) { self.value = value }
}
