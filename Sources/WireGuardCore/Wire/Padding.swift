// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The padding of transport data (WireGuard paper, section 5.4.6). The plaintext is padded to a multiple of 16 bytes,
/// but not beyond the MTU, so that a full-sized packet is not fragmented.
enum Padding {
    /// Returns the plaintext length of a packet of `length` bytes on an interface with this MTU (0: unlimited).
    ///
    /// A packet longer than the MTU is a batch of segments that the kernel joined; its last part is padded.
    @inline(__always)
    static func paddedLength(_ length: Int, mtu: Int) -> Int {
        let rounded = (length &+ 15) & ~15
        guard mtu > 0, rounded > mtu else { return rounded }
        let last = length > mtu ? length % mtu : length
        let paddedLast = min((last &+ 15) & ~15, mtu)
        return length &- last &+ paddedLast
    }
}
