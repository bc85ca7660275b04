// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A message of the kernel: its type and what follows the header. Reading never trusts a length.
struct NetlinkReply: Hashable, Sendable {
    let type: UInt16
    let sequence: UInt32
    let body: [UInt8]

    /// The messages of one datagram, in order; one that does not hold together ends it.
    static func parse(_ datagram: [UInt8]) -> [NetlinkReply] {
        var replies: [NetlinkReply] = []
        var start = 0
        while datagram.count - start >= Netlink.headerLength {
            let reader = NetlinkReader(bytes: datagram)
            guard let length = reader.number(at: start, as: UInt32.self).map(Int.init),
                length >= Netlink.headerLength, length <= datagram.count - start,
                let type = reader.number(at: start + 4, as: UInt16.self),
                let sequence = reader.number(at: start + 8, as: UInt32.self)
            else { break }
            let body = Array(datagram[(start + Netlink.headerLength)..<(start + length)])
            replies.append(NetlinkReply(type: type, sequence: sequence, body: body))
            start += Netlink.aligned(length)
        }
        return replies
    }

    /// The error number of an acknowledgement, zero for success; nil for any other message.
    var errorNumber: Int32? {
        guard type == Netlink.error, let code = NetlinkReader(bytes: body).number(at: 0, as: Int32.self) else {
            return nil
        }
        return code == .min ? .max : abs(code)
    }
}

/// Numbers and attributes in bytes of the kernel, in the machine's own order.
struct NetlinkReader {
    let bytes: [UInt8]

    /// The number at an offset; nil where the bytes end before.
    func number<Number: FixedWidthInteger>(at offset: Int, as type: Number.Type) -> Number? {
        let size = Number.bitWidth / 8
        guard offset >= 0, offset <= bytes.count - size else { return nil }
        return unsafe bytes.withUnsafeBytes { unsafe $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }

    /// The attributes from an offset on, by their kind. Of several of one kind the last one counts.
    func attributes(from offset: Int) -> [UInt16: [UInt8]] {
        var attributes: [UInt16: [UInt8]] = [:]
        var start = offset
        while let length = number(at: start, as: UInt16.self).map(Int.init),
            let kind = number(at: start + 2, as: UInt16.self), length >= 4, length <= bytes.count - start
        {
            // The two highest bits say how the attribute is nested and ordered.
            attributes[kind & 0x3fff] = Array(bytes[(start + 4)..<(start + length)])
            start += Netlink.aligned(length)
        }
        return attributes
    }
}

extension [UInt16: [UInt8]] {
    /// The 32-bit attribute of this kind.
    func number(_ kind: UInt16) -> UInt32? {
        self[kind].flatMap { NetlinkReader(bytes: $0).number(at: 0, as: UInt32.self) }
    }

    /// The attribute of this kind as text, up to its zero.
    func text(_ kind: UInt16) -> String? {
        self[kind].map { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
