// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A prefix under which a network maps IPv4 addresses to IPv6 (RFC 6052). It is found by resolving `ipv4only.arpa` (RFC
/// 7050).
package struct NAT64Prefix: Hashable, Sendable {
    /// The name whose only real addresses are ``wellKnown``, so that an IPv6 address in the answer contains the prefix.
    package static let discoveryName = "ipv4only.arpa"
    /// The IPv4 addresses of that name.
    package static let wellKnown: [UInt32] = [0xc000_00aa, 0xc000_00ab]
    /// The permitted lengths in bits (RFC 6052 section 2.2), the most common first.
    package static let lengths = [96, 64, 56, 48, 40, 32]

    /// The address bits of the prefix; the bits after it are zero.
    package let value: UInt128
    /// The number of bits.
    package let length: Int

    /// Creates a prefix; `nil` unless the length is one of RFC 6052.
    package init?(value: UInt128, length: Int) {
        guard Self.lengths.contains(length) else { return nil }
        self.value = (value >> UInt128(128 - length)) << UInt128(128 - length)
        self.length = length
    }

    /// 64:ff9b::/96, the well-known prefix.
    package static let standard = NAT64Prefix(value: 0x64_ff9b << 96, length: 96)

    /// Returns the IPv6 address for the IPv4 address `address`. Its bits follow the prefix but skip bits 64 to 71,
    /// which are zero.
    package func embed(_ address: UInt32) -> IPAddress {
        let bits = UInt128(address)
        let mapped: UInt128
        if length == 96 {
            mapped = bits
        } else {
            // Place the bits before and after the skipped byte separately.
            let before = min(32, 64 - length)
            let high = before == 0 ? 0 : (bits >> UInt128(32 - before)) << UInt128(128 - length - before)
            let rest = 32 - before
            let low = rest == 0 ? 0 : (bits & ((1 << UInt128(rest)) - 1)) << UInt128(56 - rest)
            mapped = high | low
        }
        return IPAddress(isIPv6: true, value: value | mapped)
    }

    /// Returns the prefixes in the answers to ``discoveryName``, without duplicates, in the order of the answers.
    package static func discover(from answers: [IPAddress]) -> [NAT64Prefix] {
        var found: [NAT64Prefix] = []
        for address in answers where address.isIPv6 {
            let prefix = lengths.lazy.compactMap { NAT64Prefix(value: address.value, length: $0) }.first { prefix in
                wellKnown.contains { prefix.embed($0) == address }
            }
            if let prefix, !found.contains(prefix) { found.append(prefix) }
        }
        return found
    }
}
