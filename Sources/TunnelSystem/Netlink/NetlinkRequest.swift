// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Numbers of linux/netlink.h, rtnetlink.h, if_addr.h, fib_rules.h and net_namespace.h, by their names there.
package enum Netlink {
    package static let error: UInt16 = 2
    package static let done: UInt16 = 3
    package static let newLink: UInt16 = 16
    package static let deleteLink: UInt16 = 17
    package static let getLink: UInt16 = 18
    package static let setLink: UInt16 = 19
    package static let newAddress: UInt16 = 20
    package static let deleteAddress: UInt16 = 21
    package static let getAddress: UInt16 = 22
    package static let newRoute: UInt16 = 24
    package static let deleteRoute: UInt16 = 25
    package static let getRoute: UInt16 = 26
    package static let newRule: UInt16 = 32
    package static let deleteRule: UInt16 = 33
    package static let getRule: UInt16 = 34
    package static let newNamespaceID: UInt16 = 88
    package static let deleteNamespaceID: UInt16 = 89
    package static let getNamespaceID: UInt16 = 90

    package static let isRequest: UInt16 = 0x1
    package static let acknowledge: UInt16 = 0x4
    package static let dump: UInt16 = 0x300
    package static let replace: UInt16 = 0x100
    package static let exclusive: UInt16 = 0x200
    package static let create: UInt16 = 0x400
    package static let append: UInt16 = 0x800
    /// The bit in an attribute's kind that says that the attribute consists of attributes.
    package static let nested: UInt16 = 0x8000

    package static let headerLength = 16

    /// The next multiple of four, where the next attribute begins.
    package static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
}

/// A request to the kernel: a header, a fixed part and attributes (RFC 3549 section 2.2; rtnetlink(7)).
package struct NetlinkRequest: Sendable {
    package let type: UInt16
    package let flags: UInt16
    package private(set) var body: [UInt8]

    /// A request with this fixed part, which is a multiple of four bytes long.
    package init(type: UInt16, flags: UInt16 = 0, body: [UInt8]) {
        self.type = type
        self.flags = flags
        self.body = body
    }

    /// Adds an attribute of these bytes.
    package mutating func append(_ kind: UInt16, _ value: [UInt8]) {
        body += NetlinkRequest.bytes(UInt16(truncatingIfNeeded: 4 + value.count)) + NetlinkRequest.bytes(kind)
        body += value
        body += [UInt8](repeating: 0, count: Netlink.aligned(value.count) - value.count)
    }

    /// Adds an attribute of 32 bits.
    package mutating func append(_ kind: UInt16, _ value: UInt32) {
        append(kind, NetlinkRequest.bytes(value))
    }

    /// Adds an attribute of text, with the zero at its end.
    package mutating func append(_ kind: UInt16, _ value: String) {
        append(kind, Array(value.utf8) + [0])
    }

    /// The whole message.
    /// - Parameter more: further flags. It is always a request.
    package func message(sequence: UInt32, flags more: UInt16 = 0) -> [UInt8] {
        NetlinkRequest.bytes(UInt32(truncatingIfNeeded: Netlink.headerLength + body.count))
            + NetlinkRequest.bytes(type) + NetlinkRequest.bytes(flags | more | Netlink.isRequest)
            + NetlinkRequest.bytes(sequence) + NetlinkRequest.bytes(UInt32(0)) + body
    }

    /// The bytes of a number in the machine's own order, which is netlink's.
    package static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value) { unsafe Array($0) }
    }
}
