// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A message of the kernel: its header and payload. The parser checks every length, and works on all systems.
package struct NetlinkReply: Hashable, Sendable {
    package var type: UInt16
    package var flags: UInt16
    package var sequence: UInt32
    package var body: [UInt8]

    package init(type: UInt16, flags: UInt16 = 0, sequence: UInt32 = 0, body: [UInt8]) {
        self.type = type
        self.flags = flags
        self.sequence = sequence
        self.body = body
    }

    /// Returns the messages of one datagram, in order. The first inconsistent message ends the list.
    package static func parse(_ datagram: [UInt8]) -> [NetlinkReply] {
        let reader = NetlinkReader(bytes: datagram)
        var replies: [NetlinkReply] = []
        var start = 0
        while let length = reader.number(at: start, as: UInt32.self).map(Int.init),
            length >= Netlink.headerLength, length <= datagram.count - start,
            let type = reader.number(at: start + 4, as: UInt16.self),
            let flags = reader.number(at: start + 6, as: UInt16.self),
            let sequence = reader.number(at: start + 8, as: UInt32.self)
        {
            let body = Array(datagram[(start + Netlink.headerLength)..<(start + length)])
            replies.append(NetlinkReply(type: type, flags: flags, sequence: sequence, body: body))
            start += Netlink.aligned(length)
        }
        return replies
    }

    /// The error number of an acknowledgement, zero for success; `nil` for any other message.
    package var errorNumber: Int32? {
        guard type == Netlink.error, let code = NetlinkReader(bytes: body).number(at: 0, as: Int32.self) else {
            return nil
        }
        return code == .min ? .max : abs(code)
    }

    /// Whether the listed objects changed meanwhile, so that the list may be wrong (`NLM_F_DUMP_INTR`).
    package var isInterrupted: Bool { flags & 0x10 != 0 }
}

/// Numbers and attributes in bytes of the kernel, in the machine's own order.
package struct NetlinkReader {
    private let bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The number at an offset; `nil` if it is beyond the end.
    package func number<Number: FixedWidthInteger>(at offset: Int, as type: Number.Type) -> Number? {
        let size = Number.bitWidth / 8
        guard offset >= 0, offset <= bytes.count - size else { return nil }
        return unsafe bytes.withUnsafeBytes { unsafe $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }

    /// The attributes from an offset. An attribute with an invalid length ends them.
    package func attributes(from offset: Int) -> NetlinkAttributes {
        var attributes: NetlinkAttributes = [:]
        forEachAttribute(from: offset) { attributes[$0] = $1 }
        return attributes
    }

    /// Calls `body` with the kind and the value of each attribute from an offset, in their order. An attribute with an
    /// invalid length ends them.
    package func forEachAttribute(from offset: Int, _ body: (UInt16, [UInt8]) -> Void) {
        var start = offset
        while let length = number(at: start, as: UInt16.self).map(Int.init),
            let kind = number(at: start + 2, as: UInt16.self), length >= 4, length <= bytes.count - start
        {
            // The two highest bits say how the attribute is nested and ordered.
            body(kind & 0x3fff, Array(bytes[(start + 4)..<(start + length)]))
            start += Netlink.aligned(length)
        }
    }
}

/// The attributes of a message, or those nested in one attribute, by their kind. If a kind occurs several times, its
/// last attribute counts.
package typealias NetlinkAttributes = [UInt16: [UInt8]]

extension NetlinkAttributes {
    /// The attributes in the attribute of this kind.
    package func nested(_ kind: UInt16) -> NetlinkAttributes? {
        self[kind].map { NetlinkReader(bytes: $0).attributes(from: 0) }
    }

    /// The 32-bit attribute of this kind.
    package func number(_ kind: UInt16) -> UInt32? {
        self[kind].flatMap { NetlinkReader(bytes: $0).number(at: 0, as: UInt32.self) }
    }

    /// The attribute of this kind as text, up to its zero.
    package func text(_ kind: UInt16) -> String? {
        self[kind].map { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
