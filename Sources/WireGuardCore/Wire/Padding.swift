// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Padding of transport data (WireGuard paper, section 5.4.6): plaintext is a multiple of 16 bytes, but never grows
/// beyond the MTU, so that a full-sized packet does not become a fragment.
enum Padding {
    /// The plaintext length of a packet of `length` bytes on an interface of `mtu` bytes (zero: unlimited).
    ///
    /// A packet longer than the MTU is one of several that the kernel joined; its last part is padded.
    @inline(__always)
    static func paddedLength(_ length: Int, mtu: Int) -> Int {
        let rounded = (length &+ 15) & ~15
        guard mtu > 0, rounded > mtu else { return rounded }
        let last = length > mtu ? length % mtu : length
        let paddedLast = min((last &+ 15) & ~15, mtu)
        return length &- last &+ paddedLast
    }
}
