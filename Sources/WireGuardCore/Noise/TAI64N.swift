// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A TAI64N label, the timestamp in a handshake initiation: eight bytes of seconds and four of nanoseconds, both
/// big-endian (WireGuard paper, section 5.4.2).
///
/// A responder accepts an initiation only if its label is greater than all earlier labels of that peer. Labels made
/// here have nanoseconds in steps of 2^24 (about 16.8 ms), so that they reveal little about the clock.
package struct TAI64N: Hashable, Comparable, Sendable {
    /// The length of a label on the wire.
    package static let byteCount = 12
    /// The smallest label, before any that a clock can produce.
    package static let zero = TAI64N(seconds: 0, nanoseconds: 0)

    /// The TAI64 label of the Unix epoch: 2^62 plus the ten seconds by which TAI was ahead.
    private static let epoch: UInt64 = 0x4000_0000_0000_000a
    private static let step: UInt32 = 1 << 24
    private static let nanosecondsPerSecond: UInt32 = 1_000_000_000

    private let seconds: UInt64
    private let nanoseconds: UInt32

    private init(seconds: UInt64, nanoseconds: UInt32) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// The label of a wall-clock reading, rounded down to the coarse step.
    package init(_ wall: WallTime) {
        let magnitude = wall.seconds.magnitude
        if wall.seconds >= 0 {
            seconds = Self.epoch + magnitude
        } else {
            seconds = Self.epoch > magnitude ? Self.epoch - magnitude : 0
        }
        nanoseconds = min(wall.nanoseconds, Self.nanosecondsPerSecond - 1) & ~(Self.step - 1)
    }

    /// Loads the label from the twelve bytes at `bytes`, which need no alignment. All values are accepted.
    package init(loadingFrom bytes: UnsafeRawPointer) {
        unsafe seconds = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        unsafe nanoseconds = UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self))
    }

    /// Writes the twelve bytes of the label to `bytes`, which needs no alignment.
    package func store(to bytes: UnsafeMutableRawPointer) {
        unsafe bytes.storeBytes(of: seconds.bigEndian, as: UInt64.self)
        unsafe bytes.storeBytes(of: nanoseconds.bigEndian, toByteOffset: 8, as: UInt32.self)
    }

    /// Returns the label to send at `wall`: that of the clock, or the next step after `last` if the clock is not later.
    ///
    /// So labels increase strictly even if the clock stops or is set back. Only the greatest possible label repeats.
    package static func next(after last: TAI64N?, at wall: WallTime) -> TAI64N {
        let label = TAI64N(wall)
        guard let last, label <= last else { return label }
        return last.successor
    }

    private var successor: TAI64N {
        let (following, overflow) = (nanoseconds & ~(Self.step - 1)).addingReportingOverflow(Self.step)
        if !overflow, following < Self.nanosecondsPerSecond {
            return TAI64N(seconds: seconds, nanoseconds: following)
        }
        guard seconds < .max else {
            return TAI64N(seconds: .max, nanoseconds: max(nanoseconds, .max - (Self.step - 1)))
        }
        return TAI64N(seconds: seconds + 1, nanoseconds: 0)
    }

    /// Orders labels as their bytes on the wire.
    package static func < (a: TAI64N, b: TAI64N) -> Bool {
        (a.seconds, a.nanoseconds) < (b.seconds, b.nanoseconds)
    }
}
