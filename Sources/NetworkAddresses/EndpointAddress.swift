// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A peer's host and port as in a configuration file: a host name or an address, and a port. Names are resolved when
/// the tunnel starts.
public struct EndpointAddress: Hashable, Sendable, CustomStringConvertible {
    /// A host name, an IPv4 address, or an IPv6 address without brackets that may end in `%zone`.
    public let host: String
    /// The UDP port, 1 to 65535.
    public let port: UInt16

    /// Creates an endpoint address after checking the host, which must be an IP address or a host name (RFC 1123
    /// section 2.1).
    ///
    /// Underscores are accepted, as by resolvers. A name whose last label is a number is refused, because it is a
    /// mistyped IPv4 address.
    public init(host: String, port: UInt16) throws(AddressTextError) {
        try self.init((host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host) + ":\(port)")
    }

    /// An endpoint address from `host:port`, `1.2.3.4:port`, `[v6]:port` or `[v6%zone]:port`.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = ContiguousArray(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        let parts = try HostAndPort(text)
        let name = text.extracting(parts.host)
        do throws(AddressTextError) {
            if parts.isBracketed {
                let address = try IPAddress(utf8: name)
                guard address.isIPv6 else {
                    throw AddressTextError("only an IPv6 address may be in brackets", at: 0)
                }
                host = address.description + (try EndpointAddress.zoneText(text, parts.zone))
            } else if HostNameSyntax.endsInNumber(name) {
                host = try IPAddress(utf8: name).description
            } else {
                try HostNameSyntax.check(name)
                host = ASCII.string(name)
            }
        } catch {
            throw error.moved(by: parts.host.lowerBound)
        }
        guard parts.port > 0 else { throw AddressTextError("nothing can be sent to port 0", at: text.count - 1) }
        port = parts.port
    }

    private static func zoneText(_ text: Span<UInt8>, _ zone: Range<Int>?) throws(AddressTextError) -> String {
        guard let zone else { return "" }
        if case .tooLarge = ASCII.unsigned(text.extracting(zone), limit: UInt64(UInt32.max)) {
            throw AddressTextError("an interface index has at most 32 bits", at: zone.lowerBound - 1)
        }
        guard zone.count <= 15 else {
            throw AddressTextError("the name of an interface has at most 15 characters", at: zone.lowerBound - 1)
        }
        for index in zone where !ASCII.isAlphanumeric(text[index]) {
            guard "._-@".utf8.contains(text[index]) else {
                throw AddressTextError("this character is not part of an interface name", at: index - 1)
            }
        }
        return "%" + ASCII.string(text.extracting(zone))
    }

    /// The endpoint, if the host is an address without a zone or with a numeric zone; `nil` if it must be resolved.
    public var endpoint: Endpoint? { try? Endpoint(description) }

    /// `host:port`, with an IPv6 address in brackets.
    public var description: String {
        host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
