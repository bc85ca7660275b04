// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CCulvert
import CulvertC
import Synchronization
import WireGuardCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// `culvert_run` on a separate thread.
final class BlockingRun: @unchecked Sendable {
    // Unchecked: the slot is written once, by culvert_run, and read as the C program would.
    private let slot: UnsafeMutablePointer<OpaquePointer?>
    private let outcome = Mutex<(culvert_result, culvert_end, String)?>(nil)
    private var thread: TestThread?

    init(on descriptor: Int32, hasHandle: Bool) {
        slot = .allocate(capacity: 1)
        slot.initialize(to: nil)
        thread = TestThread { [self] in
            defer { close(descriptor) }
            var options = culvert_options()
            culvert_options_init(&options)
            options.descriptor = descriptor
            let text = "[Interface]\nPrivateKey = \(TestKey().text)\n"
            var end = culvert_end(CULVERT_RUNNING)
            var error = culvert_error()
            let result = culvert_run(&options, text, hasHandle ? slot : nil, &end, &error)
            let message = withUnsafeBytes(of: error.message) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            outcome.withLock { $0 = (result, end, message) }
        }
    }

    deinit { slot.deallocate() }

    /// The tunnel's handle as soon as it exists, or `nil` after a minute.
    func handle() -> OpaquePointer? {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            if let handle = slot.pointee { return handle }
            sched_yield()
        }
        return nil
    }

    func join() {
        thread?.join()
        // It holds this object until it has ended.
        thread = nil
    }

    var result: culvert_result? { outcome.withLock { $0?.0 } }
    /// The error, for people.
    var message: String { outcome.withLock { $0?.2 } ?? "" }
    var end: culvert_end? { outcome.withLock { $0?.1 } }
}
