// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A host and a UDP port, taken apart but not yet understood.
struct HostAndPort {
    /// The host's offsets in the text, brackets and zone excluded.
    var host: Range<Int>
    /// The zone's offsets, the `%` excluded; nil when there is none.
    var zone: Range<Int>?
    var isBracketed: Bool
    var port: UInt16

    /// Takes `host:port`, `[address]:port` or `[address%zone]:port` apart.
    init(_ text: Span<UInt8>) throws(AddressTextError) {
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
                    "an IPv6 address in an endpoint stands in brackets, as in [2001:db8::1]:51820", at: 0)
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

extension Endpoint: CustomStringConvertible {
    /// An endpoint from `1.2.3.4:51820`, `[2001:db8::1]:51820` or `[fe80::1%2]:51820`, the zone being an interface index.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = Array(text.utf8)
        try self.init(utf8: bytes.span, resolveZone: { _ in nil })
    }

    /// An endpoint in which `resolveZone` turns the name of an interface into its index.
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
        guard parts.isBracketed == (address.family == .v6) else {
            throw AddressTextError("only an IPv6 address stands in brackets", at: 0)
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

    /// The endpoint as ``init(_:)`` reads it.
    public var description: String {
        var text: [UInt8] = []
        appendText(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends ``description`` in UTF-8.
    package func appendText(to text: inout [UInt8]) {
        if address.family == .v6 { text.append(UInt8(ascii: "[")) }
        address.appendText(to: &text)
        if address.family == .v6 {
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

// MARK: - Hosts by name

/// Where a peer is, as a configuration file says it: a host name or an address, and a port. Resolved when the tunnel starts.
public struct EndpointAddress: Hashable, Sendable, CustomStringConvertible {
    /// A host name, an IPv4 address, or an IPv6 address without brackets that may end in `%zone`.
    public let host: String
    /// The UDP port, 1 to 65535.
    public let port: UInt16

    /// An endpoint address whose host is checked: an address, or a host name as RFC 1123 section 2.1 says.
    ///
    /// Underscores are let through, as resolvers do. A name whose last part is a number is refused: it is a
    /// mistyped IPv4 address.
    public init(host: String, port: UInt16) throws(AddressTextError) {
        try self.init((host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host) + ":\(port)")
    }

    /// An endpoint address from `host:port`, `1.2.3.4:port`, `[v6]:port` or `[v6%zone]:port`.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = Array(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        let parts = try HostAndPort(text)
        let name = text.extracting(parts.host)
        do throws(AddressTextError) {
            if parts.isBracketed {
                let address = try IPAddress(utf8: name)
                guard address.family == .v6 else {
                    throw AddressTextError("only an IPv6 address stands in brackets", at: 0)
                }
                host = address.description + (try EndpointAddress.zoneText(text, parts.zone))
            } else if HostName.endsInNumber(name) {
                host = try IPAddress(utf8: name).description
            } else {
                try HostName.check(name)
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

    /// The endpoint, when the host is an address without a zone or with a numeric one; nil when it must be resolved.
    public var endpoint: Endpoint? { try? Endpoint(description) }

    /// `host:port`, with an IPv6 address in brackets.
    public var description: String {
        host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// The syntax of host names: RFC 1123 section 2.1 and the lengths of RFC 1035 section 2.3.4.
enum HostName {
    /// Whether the last part is all digits, in which case the text can only be meant as an IPv4 address.
    static func endsInNumber(_ name: Span<UInt8>) -> Bool {
        var index = name.count
        while index > 0, ASCII.decimal(name[index - 1]) != nil { index -= 1 }
        return index < name.count && (index == 0 || name[index - 1] == UInt8(ascii: "."))
    }

    static func check(_ name: Span<UInt8>) throws(AddressTextError) {
        // One final dot marks a fully qualified name and does not count.
        let end = name.count > 1 && name[name.count - 1] == UInt8(ascii: ".") ? name.count - 1 : name.count
        guard end > 0 else { throw AddressTextError("there is no host name", at: 0) }
        guard end <= 253 else { throw AddressTextError("a host name has at most 253 characters", at: 253) }
        var label = 0
        for index in 0...end {
            if index == end || name[index] == UInt8(ascii: ".") {
                guard index > label else { throw AddressTextError("a part of the host name is empty", at: index) }
                guard index - label <= 63 else {
                    throw AddressTextError("a part of a host name has at most 63 characters", at: label)
                }
                guard name[label] != UInt8(ascii: "-"), name[index - 1] != UInt8(ascii: "-") else {
                    throw AddressTextError("a part of a host name neither starts nor ends with a hyphen", at: label)
                }
                label = index + 1
            } else if name[index] >= 128 {
                throw AddressTextError(
                    "a host name is ASCII; international names are written in their xn-- form", at: index)
            } else if !ASCII.isAlphanumeric(name[index]), name[index] != UInt8(ascii: "-"),
                name[index] != UInt8(ascii: "_")
            {
                throw AddressTextError("this character is not part of a host name", at: index)
            }
        }
        guard !endsInNumber(name.extracting(0..<end)) else {
            throw AddressTextError(
                "a name that ends in a number can only be an IPv4 address, which has four numbers", at: 0)
        }
    }
}
