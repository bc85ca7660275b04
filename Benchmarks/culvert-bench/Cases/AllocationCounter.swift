// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The two functions of the library that `scripts/bench allocations` preloads.
@safe
struct AllocationCounter {
    private let watch: @convention(c) (Int32) -> Void
    private let end: @convention(c) () -> UInt64

    /// - Returns: `nil` if the library is not loaded.
    init?() {
        guard let watch = unsafe dlsym(UnsafeMutableRawPointer(bitPattern: 0), "culvert_allocations_watch"),
            let end = unsafe dlsym(UnsafeMutableRawPointer(bitPattern: 0), "culvert_allocations_end")
        else { return nil }
        self.watch = unsafe unsafeBitCast(watch, to: (@convention(c) (Int32) -> Void).self)
        self.end = unsafe unsafeBitCast(end, to: (@convention(c) () -> UInt64).self)
    }

    /// The allocations of all threads while `body` runs; the stacks of the first `traces` go to standard error.
    func count(_ traces: Int32, _ body: () -> Void) -> Int {
        watch(traces)
        body()
        return Int(clamping: end())
    }
}
