// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The reason that a text is not an address, a prefix or an endpoint.
public struct AddressTextError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, as a clause without a capital or a full stop.
    public let reason: String
    /// The UTF-8 offset in the text of the error; the length of the text if something is missing at the end.
    public let offset: Int

    package init(_ reason: String, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    /// ``reason`` and the place.
    public var description: String { "\(reason) (at character \(offset + 1))" }

    /// Returns the same error for a longer text in which the parsed part starts at `start`.
    package func moved(by start: Int) -> AddressTextError { AddressTextError(reason, at: offset + start) }

    /// Parses a decoder's text with `read`.
    static func decoded<Value>(
        from decoder: any Decoder, _ read: (String) throws(AddressTextError) -> Value
    ) throws -> Value {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do throws(AddressTextError) {
            return try read(text)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(text)': \(error)")
        }
    }
}

// MARK: - Addresses

extension IPAddress: CustomStringConvertible, Codable {
    /// Parses an address: a dotted quad, or IPv6 in any form of RFC 4291 section 2.2.
    ///
    /// IPv4 needs exactly four decimal numbers without leading zeros, because other software reads `010` as 8 and
    /// `10.1` as `10.0.0.1`. A zone, port or prefix length is an error.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = ContiguousArray(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        guard text.count > 0 else { throw AddressTextError("there is no address", at: 0) }
        for index in 0..<text.count where text[index] == UInt8(ascii: ":") {
            self = try IPAddress.groups(text)
            return
        }
        self = .v4(try IPAddress.quad(text, from: 0))
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        self = try AddressTextError.decoded(from: decoder) { (text) throws(AddressTextError) in try IPAddress(text) }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        try description.encode(to: encoder)
    }

    /// Parses the dotted quad from `start` to the end of `text`.
    private static func quad(_ text: Span<UInt8>, from start: Int) throws(AddressTextError) -> UInt32 {
        var address: UInt32 = 0
        var numbers = 0
        var index = start
        while true {
            let first = index
            var value: UInt32 = 0
            while index < text.count, let digit = ASCII.decimal(text[index]) {
                guard index - first < 3 else {
                    throw AddressTextError("a number of an IPv4 address is at most 255", at: first)
                }
                value = value &* 10 &+ UInt32(digit)
                index += 1
            }
            guard index > first else {
                throw AddressTextError(
                    index < text.count && text[index] != UInt8(ascii: ".")
                        ? "this character is not part of an IP address" : "a number of the IPv4 address is missing",
                    at: index)
            }
            guard value <= 255 else {
                throw AddressTextError("a number of an IPv4 address is at most 255", at: first)
            }
            guard index - first == 1 || text[first] != UInt8(ascii: "0") else {
                throw AddressTextError("a number of an IPv4 address has no leading zeros", at: first)
            }
            address = address << 8 | value
            numbers += 1
            if index == text.count { break }
            guard text[index] == UInt8(ascii: ".") else {
                throw AddressTextError("this character is not part of an IP address", at: index)
            }
            guard numbers < 4 else { throw AddressTextError("an IPv4 address has only four numbers", at: index) }
            index += 1
        }
        guard numbers == 4 else {
            throw AddressTextError("an IPv4 address has four numbers, this has \(numbers)", at: text.count)
        }
        return address
    }

    private static func groups(_ text: Span<UInt8>) throws(AddressTextError) -> IPAddress {
        let colon = UInt8(ascii: ":")
        // The groups before and after the `::`. Without a `::` all groups are in `head`.
        var head: UInt128 = 0
        var headCount = 0
        var tail: UInt128 = 0
        var tailCount = 0
        var compressed = false
        var index = 0

        func isColon(_ index: Int) -> Bool { index < text.count && text[index] == colon }
        if isColon(0) {
            guard isColon(1) else { throw AddressTextError("an IPv6 address starts with a group or with ::", at: 0) }
            compressed = true
            index = 2
        }
        while index < text.count {
            let first = index
            var group: UInt128 = 0
            while index < text.count, let digit = ASCII.hexadecimal(text[index]) {
                guard index - first < 4 else {
                    throw AddressTextError("a group of an IPv6 address has at most four digits", at: first)
                }
                group = group << 4 | UInt128(digit)
                index += 1
            }
            var width = 1
            if index < text.count, index > first, text[index] == UInt8(ascii: ".") {
                group = UInt128(try quad(text, from: first))
                width = 2
                index = text.count
            }
            guard index > first else {
                throw AddressTextError(
                    text[index] == colon
                        ? "a group of the IPv6 address is missing"
                        : text[index] == UInt8(ascii: "%")
                            ? "a zone (%) has no place here" : "this character is not part of an IPv6 address",
                    at: index)
            }
            guard headCount + tailCount + width <= (compressed ? 7 : 8) else {
                throw AddressTextError("an IPv6 address has eight groups, this has more", at: first)
            }
            if compressed {
                tail = tail << UInt128(16 * width) | group
                tailCount += width
            } else {
                head = head << UInt128(16 * width) | group
                headCount += width
            }
            if index == text.count { break }
            guard text[index] == colon else {
                throw AddressTextError(
                    text[index] == UInt8(ascii: "%")
                        ? "a zone (%) has no place here" : "this character is not part of an IPv6 address", at: index)
            }
            if isColon(index + 1) {
                guard !compressed else { throw AddressTextError(":: may stand only once", at: index) }
                guard headCount < 8 else {
                    throw AddressTextError("an IPv6 address has eight groups, this has more", at: index)
                }
                compressed = true
                index += 2
            } else {
                index += 1
                guard index < text.count else {
                    throw AddressTextError("a group of the IPv6 address is missing", at: index)
                }
            }
        }
        guard compressed || headCount == 8 else {
            throw AddressTextError("an IPv6 address has eight groups, this has \(headCount)", at: text.count)
        }
        let value = head << UInt128(16 * (8 - headCount)) | tail
        return IPAddress(isIPv6: true, value: value)
    }

    /// The canonical text: a dotted quad, or RFC 5952 (IPv4-mapped addresses end in a dotted quad).
    public var description: String {
        var text: [UInt8] = []
        appendText(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends ``description`` in UTF-8.
    package func appendText(to text: inout [UInt8]) {
        if !isIPv6 {
            IPAddress.appendQuad(low, to: &text)
        } else if high == 0, low >> 32 == 0xffff {
            for byte in "::ffff:".utf8 { text.append(byte) }
            IPAddress.appendQuad(low, to: &text)
        } else {
            appendGroups(to: &text)
        }
    }

    private static func appendQuad(_ value: UInt64, to text: inout [UInt8]) {
        for shift in [24, 16, 8, 0] as [UInt64] {
            ASCII.appendDecimal(value >> shift & 255, to: &text)
            if shift > 0 { text.append(UInt8(ascii: ".")) }
        }
    }

    private func appendGroups(to text: inout [UInt8]) {
        func group(_ index: Int) -> UInt64 {
            (index < 4 ? high : low) >> UInt64(48 - 16 * (index & 3)) & 0xffff
        }
        // RFC 5952 section 4.2: find the longest run of two or more zero groups; of equal runs, the first.
        var run = 0..<0
        var start = 0
        while start < 8 {
            var end = start
            while end < 8, group(end) == 0 { end += 1 }
            if end - start >= 2, end - start > run.count { run = start..<end }
            start = max(end, start + 1)
        }
        var index = 0
        while index < 8 {
            if index == run.lowerBound, !run.isEmpty {
                text.append(UInt8(ascii: ":"))
                text.append(UInt8(ascii: ":"))
                index = run.upperBound
                continue
            }
            if index > 0, index != run.upperBound || run.isEmpty { text.append(UInt8(ascii: ":")) }
            ASCII.appendHexadecimal(group(index), to: &text)
            index += 1
        }
    }
}
