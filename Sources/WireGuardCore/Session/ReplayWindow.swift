// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The set of received counters of a key: a sliding window as in RFC 6479.
///
/// A ring of 128 words of 64 bits holds 8192 counters. One word is always being filled, so a counter is accepted if it
/// is new and at most ``size`` behind the highest. Sliding forward clears whole words and shifts nothing.
@safe
package struct ReplayWindow: ~Copyable, @unchecked Sendable {
    /// The largest distance behind the highest counter: 8128.
    package static let size: UInt64 = (wordCount - 1) * 64
    /// The first counter that must not be used with a key (WireGuard paper, section 6.1): 2^64 - 2^13 - 1.
    package static let rejectAfterMessages: UInt64 = .max - (1 << 13)

    private static let wordCount: UInt64 = 128

    private let words: UnsafeMutablePointer<UInt64>
    /// The highest accepted counter, or 0.
    private var highest: UInt64 = 0

    /// Creates an empty window and allocates its 1 KiB.
    package init() {
        unsafe words = .allocate(capacity: Int(Self.wordCount))
        unsafe words.initialize(repeating: 0, count: Int(Self.wordCount))
    }

    deinit {
        unsafe words.deallocate()
    }

    /// Whether `counter` seems new. This is the cheap check before decryption.
    @inline(__always)
    package func mayAccept(_ counter: UInt64) -> Bool {
        guard counter < Self.rejectAfterMessages else { return false }
        if counter > highest { return true }
        guard highest &- counter <= Self.size else { return false }
        return unsafe words[Self.wordIndex(counter)] & Self.bit(counter) == 0
    }

    /// Records `counter` after its packet was authenticated. Returns `false` without a change if the counter was
    /// received before, is too old or exceeds the limit; the packet must then be dropped.
    package mutating func accept(_ counter: UInt64) -> Bool {
        guard mayAccept(counter) else { return false }
        if counter > highest {
            // Clear at most the whole ring, however large the step.
            let passed = min(counter >> 6 &- highest >> 6, Self.wordCount)
            var word = highest >> 6
            for _ in 0..<passed {
                word &+= 1
                unsafe words[Int(truncatingIfNeeded: word & (Self.wordCount - 1))] = 0
            }
            highest = counter
        }
        unsafe words[Self.wordIndex(counter)] |= Self.bit(counter)
        return true
    }

    @inline(__always)
    private static func wordIndex(_ counter: UInt64) -> Int {
        Int(truncatingIfNeeded: counter >> 6 & (wordCount - 1))
    }

    @inline(__always)
    private static func bit(_ counter: UInt64) -> UInt64 {
        1 &<< (counter & 63)
    }
}
