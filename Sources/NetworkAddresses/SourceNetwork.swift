// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension IPAddress {
    /// The IPv4 address of an IPv4-mapped IPv6 address; otherwise the address itself.
    package var unmapped: IPAddress {
        guard isIPv6, value >> 32 == 0xffff else { return self }
        return .v4(UInt32(truncatingIfNeeded: value))
    }

    /// The addresses that one sender commonly has: an IPv4 address, or the /64 of an IPv6 address.
    package var sourceNetwork: IPPrefix { unmapped.prefix(v4: 32, v6: 64) }

    /// The addresses that one customer of a provider can have: the /24 of an IPv4 address, or the /48 of an IPv6 address.
    package var siteNetwork: IPPrefix { unmapped.prefix(v4: 24, v6: 48) }

    private func prefix(v4: Int, v6: Int) -> IPPrefix { IPPrefix(holding: self, length: isIPv6 ? v6 : v4) }
}
