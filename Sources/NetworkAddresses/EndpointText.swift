// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A host and a UDP port, split but not parsed yet.
package struct HostAndPort {
    /// The offsets of the host in the text, without brackets and zone.
    package var host: Range<Int>
    /// The offsets of the zone, without the `%`; `nil` if there is none.
    package var zone: Range<Int>?
    package var isBracketed: Bool
    package var port: UInt16

    /// Splits `host:port`, `[address]:port` or `[address%zone]:port`.
    package init(_ text: Span<UInt8>) throws(AddressTextError) {
        guard text.count > 0 else { throw AddressTextError("there is no endpoint", at: 0) }
        let portStart: Int
        zone = nil
        isBracketed = text[0] == UInt8(ascii: "[")
        if isBracketed {
            guard let bracket = ASCII.firstIndex(of: UInt8(ascii: "]"), in: text) else {
                throw AddressTextError("the bracket [ is not closed", at: 0)
            }
            host = 1..<bracket
            if let percent = ASCII.firstIndex(of: UInt8(ascii: "%"), in: text.extracting(0..<bracket)) {
                host = 1..<percent
                let name = (percent + 1)..<bracket
                guard !name.isEmpty else { throw AddressTextError("there is no zone after the %", at: bracket) }
                zone = name
            }
            guard bracket + 1 < text.count else {
                throw AddressTextError("there is no port after the address", at: text.count)
            }
            guard text[bracket + 1] == UInt8(ascii: ":") else {
                throw AddressTextError("a colon and the port follow the bracket ]", at: bracket + 1)
            }
            portStart = bracket + 2
        } else {
            guard let colon = ASCII.lastIndex(of: UInt8(ascii: ":"), in: text) else {
                throw AddressTextError("there is no port after the host", at: text.count)
            }
            guard ASCII.firstIndex(of: UInt8(ascii: ":"), in: text) == colon else {
                throw AddressTextError(
                    "an IPv6 address in an endpoint must be in brackets, as in [2001:db8::1]:51820", at: 0)
            }
            host = 0..<colon
            portStart = colon + 1
        }
        guard !host.isEmpty else { throw AddressTextError("there is no host before the port", at: host.lowerBound) }
        guard portStart < text.count else { throw AddressTextError("there is no port after the colon", at: text.count) }
        switch ASCII.unsigned(text.extracting(portStart..<text.count), limit: 65535) {
        case .value(let value): port = UInt16(truncatingIfNeeded: value)
        case .tooLarge: throw AddressTextError("a port is at most 65535", at: portStart)
        case .notANumber(let offset): throw AddressTextError("a port is a decimal number", at: portStart + offset)
        }
    }
}

extension Endpoint: CustomStringConvertible, Codable {
    /// Parses an endpoint such as `1.2.3.4:51820`, `[2001:db8::1]:51820` or `[fe80::1%2]:51820`. The zone is an
    /// interface index.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = ContiguousArray(text.utf8)
        try self.init(utf8: bytes.span, resolveZone: { _ in nil })
    }

    /// Parses an endpoint. `resolveZone` returns the index of the interface with a name.
    package init(
        utf8 text: Span<UInt8>, resolveZone: (String) -> UInt32?
    ) throws(AddressTextError) {
        let parts = try HostAndPort(text)
        let address: IPAddress
        do throws(AddressTextError) {
            address = try IPAddress(utf8: text.extracting(parts.host))
        } catch {
            throw error.moved(by: parts.host.lowerBound)
        }
        guard parts.isBracketed == address.isIPv6 else {
            throw AddressTextError("only an IPv6 address may be in brackets", at: 0)
        }
        var scopeID: UInt32 = 0
        if let zone = parts.zone {
            switch ASCII.unsigned(text.extracting(zone), limit: UInt64(UInt32.max)) {
            case .value(let index): scopeID = UInt32(truncatingIfNeeded: index)
            case .tooLarge: throw AddressTextError("an interface index has at most 32 bits", at: zone.lowerBound)
            case .notANumber:
                guard let index = resolveZone(ASCII.string(text.extracting(zone))) else {
                    throw AddressTextError("no interface has the name of this zone", at: zone.lowerBound)
                }
                scopeID = index
            }
        }
        self.init(address: address, port: parts.port, scopeID: scopeID)
    }

    /// The endpoint in the form that ``init(_:)`` parses.
    public var description: String {
        var text: [UInt8] = []
        appendText(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        self = try AddressTextError.decoded(from: decoder) { (text) throws(AddressTextError) in try Endpoint(text) }
    }

    /// Encodes the text, without ``source``.
    public func encode(to encoder: any Encoder) throws {
        try description.encode(to: encoder)
    }

    /// Appends ``description`` in UTF-8.
    package func appendText(to text: inout [UInt8]) {
        if isIPv6 { text.append(UInt8(ascii: "[")) }
        address.appendText(to: &text)
        if isIPv6 {
            if scopeID != 0 {
                text.append(UInt8(ascii: "%"))
                ASCII.appendDecimal(UInt64(scopeID), to: &text)
            }
            text.append(UInt8(ascii: "]"))
        }
        text.append(UInt8(ascii: ":"))
        ASCII.appendDecimal(UInt64(port), to: &text)
    }
}
