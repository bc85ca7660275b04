// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The attributes of a netlink message, or those nested in one of them: each a length, a kind and bytes. Bounds-checked;
/// one whose length lies ends them.
package struct NetlinkAttributes: Hashable, Sendable {
    private let bytes: ArraySlice<UInt8>

    /// The attributes in `bytes`.
    package init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    /// The bytes of the first attribute of this kind.
    package func value(_ kind: UInt16) -> ArraySlice<UInt8>? {
        var rest = bytes
        while rest.count >= 4 {
            let start = rest.startIndex
            let length = Int(Self.word(rest, start))
            guard length >= 4, length <= rest.count else { return nil }
            // The two highest bits say how the attribute is nested and ordered.
            if Self.word(rest, start + 2) & 0x3fff == kind { return rest[(start + 4)..<(start + length)] }
            rest = rest.dropFirst(NetlinkMessage.aligned(length))
        }
        return nil
    }

    /// The attributes in the attribute of this kind.
    package func nested(_ kind: UInt16) -> NetlinkAttributes? {
        value(kind).map { NetlinkAttributes($0) }
    }

    /// The first byte of the attribute of this kind.
    package func byte(_ kind: UInt16) -> UInt8? { value(kind)?.first }

    /// The 32-bit number of this kind, in the machine's byte order.
    package func number(_ kind: UInt16) -> UInt32? {
        guard let value = value(kind), value.count >= 4 else { return nil }
        return unsafe value.withUnsafeBytes { unsafe $0.loadUnaligned(as: UInt32.self) }
    }

    /// The text of this kind, which a zero ends.
    package func text(_ kind: UInt16) -> String? {
        value(kind).map { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    private static func word(_ bytes: ArraySlice<UInt8>, _ index: Int) -> UInt16 {
        let pair = (bytes[index], bytes[index + 1])
        return unsafe withUnsafeBytes(of: pair) { unsafe $0.loadUnaligned(as: UInt16.self) }
    }
}

/// A netlink request being put together (RFC 3549 section 2.2).
package struct NetlinkRequest {
    private var content: [UInt8] = []

    /// Flags, by the names of linux/netlink.h.
    package enum Flag {
        package static let request: UInt16 = 1
        package static let acknowledge: UInt16 = 4
        package static let exclusive: UInt16 = 0x200
        package static let dump: UInt16 = 0x300
        package static let create: UInt16 = 0x400
    }

    /// A request of this type. It is always a request, whatever the flags.
    package init(type: UInt16, flags: UInt16) {
        append(UInt32(0))
        append(type)
        append(flags | Flag.request)
        append(UInt64(0))  // sequence, port
    }

    /// Adds a number in the machine's byte order.
    package mutating func append(_ value: some FixedWidthInteger) {
        unsafe withUnsafeBytes(of: value) { unsafe content.append(contentsOf: $0) }
    }

    /// Adds an attribute.
    package mutating func append(attribute kind: UInt16, _ value: [UInt8]) {
        append(UInt16(clamping: 4 + value.count))
        append(kind)
        content += value
        content += [UInt8](repeating: 0, count: NetlinkMessage.aligned(content.count) - content.count)
    }

    /// The request as it is sent.
    package var bytes: [UInt8] {
        var bytes = content
        unsafe withUnsafeBytes(of: UInt32(clamping: bytes.count)) { length in
            unsafe bytes.replaceSubrange(0..<4, with: length)
        }
        return bytes
    }
}
