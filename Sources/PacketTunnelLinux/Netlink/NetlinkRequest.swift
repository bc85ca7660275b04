// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Numbers of linux/netlink.h, rtnetlink.h, if_addr.h and fib_rules.h, by their names there.
enum Netlink {
    static let error: UInt16 = 2
    static let done: UInt16 = 3
    static let newLink: UInt16 = 16
    static let deleteLink: UInt16 = 17
    static let getLink: UInt16 = 18
    static let newAddress: UInt16 = 20
    static let deleteAddress: UInt16 = 21
    static let getAddress: UInt16 = 22
    static let newRoute: UInt16 = 24
    static let deleteRoute: UInt16 = 25
    static let getRoute: UInt16 = 26
    static let newRule: UInt16 = 32
    static let deleteRule: UInt16 = 33
    static let getRule: UInt16 = 34

    static let isRequest: UInt16 = 0x1
    static let acknowledge: UInt16 = 0x4
    static let dump: UInt16 = 0x300
    static let replace: UInt16 = 0x100
    static let exclusive: UInt16 = 0x200
    static let create: UInt16 = 0x400

    static let headerLength = 16

    static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
}

/// A request to the kernel's routing: a header, a fixed part and attributes (rtnetlink(7)).
struct NetlinkRequest: Sendable {
    let type: UInt16
    let flags: UInt16
    private(set) var body: [UInt8]

    /// A request with this fixed part, which is a multiple of four bytes long.
    init(type: UInt16, flags: UInt16, body: [UInt8]) {
        self.type = type
        self.flags = flags
        self.body = body
    }

    /// Adds an attribute of these bytes.
    mutating func append(_ kind: UInt16, _ value: [UInt8]) {
        body += NetlinkRequest.bytes(UInt16(truncatingIfNeeded: 4 + value.count)) + NetlinkRequest.bytes(kind)
        body += value
        body += [UInt8](repeating: 0, count: Netlink.aligned(value.count) - value.count)
    }

    /// Adds an attribute of 32 bits.
    mutating func append(_ kind: UInt16, _ value: UInt32) {
        append(kind, NetlinkRequest.bytes(value))
    }

    /// Adds an attribute of text, with the zero at its end.
    mutating func append(_ kind: UInt16, _ value: String) {
        append(kind, Array(value.utf8) + [0])
    }

    /// The whole message.
    func message(sequence: UInt32) -> [UInt8] {
        NetlinkRequest.bytes(UInt32(truncatingIfNeeded: Netlink.headerLength + body.count))
            + NetlinkRequest.bytes(type) + NetlinkRequest.bytes(flags | Netlink.isRequest)
            + NetlinkRequest.bytes(sequence) + NetlinkRequest.bytes(UInt32(0)) + body
    }

    /// The bytes of a number in the machine's own order, which is netlink's.
    static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value) { unsafe Array($0) }
    }
}
