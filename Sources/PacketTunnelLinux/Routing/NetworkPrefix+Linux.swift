// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

extension NetworkAddress {
    /// The address family's number, as the kernel wants it.
    var family: UInt8 { UInt8(isIPv6 ? AF_INET6 : AF_INET) }
}

extension NetworkPrefix {
    /// The networks that together are this one without the others, lowest address first, as few as there can be.
    package func subtracting(_ others: [NetworkPrefix]) -> [NetworkPrefix] {
        if others.contains(where: { $0.contains(self) }) { return [] }
        let inside = others.filter { contains($0) }
        // One that is inside and not all of it is longer, so that this one has two halves.
        guard !inside.isEmpty, length < address.bitWidth else { return [network] }
        let step = UInt128(1) << UInt128(address.bitWidth - length - 1)
        let halves = [network.address, address.sibling(network.address.value | step)]
        return halves.compactMap { NetworkPrefix($0, length: length + 1) }.flatMap { $0.subtracting(inside) }
    }
}
