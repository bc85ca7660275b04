// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An address of an interface, with its network and, on a point-to-point link, the address of the other end.
///
/// Host bits are kept. It is encoded as its text.
public struct InterfaceAddress: Hashable, Sendable {
    /// The interface's own address.
    public let address: IPAddress
    /// The bits of ``peer``, or of ``address`` if there is no peer, that belong to the network: 0 to 32 or 0 to 128.
    public let prefixLength: Int
    /// The address of the other end, of the same family as ``address``; `nil` if there is none.
    public let peer: IPAddress?

    /// Creates an address in a network. Returns `nil` if the family has fewer bits than `prefixLength`, or if `peer` is of
    /// the other family.
    public init?(_ address: IPAddress, prefixLength: Int, peer: IPAddress? = nil) {
        guard (0...address.bitWidth).contains(prefixLength), peer == nil || peer?.isIPv6 == address.isIPv6 else {
            return nil
        }
        self.address = address
        self.prefixLength = prefixLength
        self.peer = peer
    }

    /// Creates an address in a network of only this address.
    public init(host address: IPAddress) {
        self.address = address
        prefixLength = address.bitWidth
        peer = nil
    }

    /// Whether it is of IPv6.
    public var isIPv6: Bool { address.isIPv6 }

    /// The network of the peer's address or, without a peer, of the address.
    public var network: IPPrefix { IPPrefix(holding: peer ?? address, length: prefixLength) }
}

// MARK: - Text

extension InterfaceAddress: CustomStringConvertible, Codable {
    /// Parses an address such as `10.0.0.1/24`, `fd00::1/64`, `10.0.0.1` (in a network of only this address) or
    /// `10.0.0.1 peer 10.0.0.2/32`.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = ContiguousArray(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        let word = Array(" peer ".utf8)
        guard let space = ASCII.firstIndex(of: word[0], in: text), space + word.count <= text.count,
            ASCII.equal(text.extracting(space..<(space + word.count)), word)
        else {
            (address, prefixLength) = try Self.parts(text)
            peer = nil
            return
        }
        let start = space + word.count
        address = try IPAddress(utf8: text.extracting(0..<space))
        let other: IPAddress
        do throws(AddressTextError) {
            (other, prefixLength) = try Self.parts(text.extracting(start..<text.count))
        } catch {
            throw error.moved(by: start)
        }
        guard other.isIPv6 == address.isIPv6 else {
            throw AddressTextError("an address and its peer must be of one family", at: start)
        }
        peer = other
    }

    /// Parses an address and a prefix length that is valid for its family.
    static func parts(_ text: Span<UInt8>) throws(AddressTextError) -> (address: IPAddress, length: Int) {
        let slash = ASCII.firstIndex(of: UInt8(ascii: "/"), in: text) ?? text.count
        let address = try IPAddress(utf8: text.extracting(0..<slash))
        guard slash < text.count else { return (address, address.bitWidth) }
        let digits = text.extracting((slash + 1)..<text.count)
        guard digits.count > 0 else { throw AddressTextError("there is no prefix length after the /", at: text.count) }
        switch ASCII.unsigned(digits, limit: UInt64(address.bitWidth)) {
        case .value(let length):
            // `ip` reads 010 as ten and other programs as eight, so leading zeros are refused.
            guard digits.count == 1 || digits[0] != UInt8(ascii: "0") else {
                throw AddressTextError("a prefix length has no leading zeros", at: slash + 1)
            }
            return (address, Int(length))
        case .tooLarge:
            throw AddressTextError(
                address.isIPv6
                    ? "the prefix length of an IPv6 address is at most 128"
                    : "the prefix length of an IPv4 address is at most 32", at: slash + 1)
        case .notANumber(let offset):
            throw AddressTextError("a prefix length is a decimal number", at: slash + 1 + offset)
        }
    }

    /// `10.0.0.1/24`, always with the length, or `10.0.0.1 peer 10.0.0.2/32`.
    public var description: String {
        if let peer { "\(address) peer \(peer)/\(prefixLength)" } else { "\(address)/\(prefixLength)" }
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        self = try AddressTextError.decoded(from: decoder) { (text) throws(AddressTextError) in
            try InterfaceAddress(text)
        }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        try description.encode(to: encoder)
    }
}
