// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An address that the tunnel's interface gets, and the length of the network it lies in. Host bits are kept.
public struct InterfaceAddress: Hashable, Sendable, CustomStringConvertible {
    /// The interface's own address.
    public let address: IPAddress
    /// The number of leading bits that the network shares: 0 to 32 or 0 to 128.
    public let prefixLength: Int

    /// An address in a network; nil when the family has fewer bits than `prefixLength`.
    public init?(_ address: IPAddress, prefixLength: Int) {
        guard prefixLength >= 0, prefixLength <= address.family.bitWidth else { return nil }
        self.address = address
        self.prefixLength = prefixLength
    }

    /// An address from `address[/length]`; without a length it is alone in its network.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = Array(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        (address, prefixLength) = try IPPrefix.parts(text)
    }

    /// The network that the address lies in.
    public var network: IPPrefix? { IPPrefix(address, length: prefixLength) }

    /// `address/length`, length included always.
    public var description: String { "\(address)/\(prefixLength)" }
}
