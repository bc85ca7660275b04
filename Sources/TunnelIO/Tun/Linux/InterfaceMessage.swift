// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One netlink message whose body is taken as it is.
package struct NetlinkReply: Hashable, Sendable {
    /// What the message is about.
    package var type: UInt16
    /// Flags of linux/netlink.h.
    package var flags: UInt16
    /// What comes after the header.
    package var body: [UInt8]

    /// A message.
    package init(type: UInt16, flags: UInt16, body: [UInt8]) {
        self.type = type
        self.flags = flags
        self.body = body
    }

    /// Whether what is being listed changed in the meantime, so that the list may be wrong (`NLM_F_DUMP_INTR`).
    package var isInterrupted: Bool { flags & 0x10 != 0 }
}

/// What is asked of the kernel about one interface, and how its answers are read (rtnetlink(7)).
package enum InterfaceMessage {
    /// Message types and attribute kinds, by the names of linux/rtnetlink.h, if_link.h and if_addr.h.
    private enum Kind {
        static let newLink: UInt16 = 16
        static let getLink: UInt16 = 18
        static let setLink: UInt16 = 19
        static let newAddress: UInt16 = 20
        static let deleteAddress: UInt16 = 21
        static let getAddress: UInt16 = 22
        static let linkName: UInt16 = 3
        static let address: UInt16 = 1
        static let localAddress: UInt16 = 2
    }

    private static let inet: UInt8 = 2
    private static let inet6: UInt8 = 10
    private static let linkLength = 16
    private static let addressLength = 8

    /// Asks for all addresses of all interfaces: not every kernel picks those of one.
    package static let addressList: [UInt8] = {
        var request = NetlinkRequest(type: Kind.getAddress, flags: NetlinkRequest.Flag.dump)
        request.append(UInt64(0))  // struct ifaddrmsg
        return request.bytes
    }()

    /// Adds an address, which the interface may not have yet, or takes one away.
    package static func change(_ address: TunAddress, isAdded: Bool, index: Int32) -> [UInt8] {
        var flags = NetlinkRequest.Flag.acknowledge
        if isAdded { flags |= NetlinkRequest.Flag.create | NetlinkRequest.Flag.exclusive }
        var request = NetlinkRequest(type: isAdded ? Kind.newAddress : Kind.deleteAddress, flags: flags)
        request.append(address.host.isIPv6 ? inet6 : inet)
        request.append(UInt8(clamping: address.prefixLength))
        request.append(UInt16(0))  // flags, scope
        request.append(index)
        request.append(attribute: Kind.localAddress, address.host.bytes)
        request.append(attribute: Kind.address, (address.peer ?? address.host).bytes)
        return request.bytes
    }

    /// The address in a message; nil for another message, or one about another interface.
    package static func address(_ reply: NetlinkReply, index: Int32) -> TunAddress? {
        guard reply.type == Kind.newAddress, reply.body.count >= addressLength else { return nil }
        let family = reply.body[0]
        guard family == inet || family == inet6, number(reply.body, 4) == index else { return nil }
        let attributes = NetlinkAttributes(reply.body[addressLength...])
        func host(_ kind: UInt16) -> TunAddress.Host? {
            guard let bytes = attributes.value(kind), bytes.count == (family == inet6 ? 16 : 4) else { return nil }
            return unsafe bytes.withUnsafeBytes { unsafe TunAddress.Host(bytes: $0) }
        }
        // The other end, where there is one, has the place of the address; then there is a local one beside it.
        guard let far = host(Kind.address) ?? host(Kind.localAddress) else { return nil }
        let near = host(Kind.localAddress) ?? far
        let address = TunAddress(near, prefixLength: Int(reply.body[1]), peer: far == near ? nil : far)
        return address.problem == nil ? address : nil
    }

    /// Asks for an interface by its number.
    package static func description(index: Int32) -> [UInt8] {
        link(NetlinkRequest(type: Kind.getLink, flags: 0), index: index).bytes
    }

    /// Asks for an interface by its name.
    package static func description(name: String) -> [UInt8] {
        var request = link(NetlinkRequest(type: Kind.getLink, flags: 0), index: 0)
        request.append(attribute: Kind.linkName, Array(name.utf8) + [0])
        return request.bytes
    }

    /// Gives an interface another name.
    package static func rename(to name: String, index: Int32) -> [UInt8] {
        var request = link(NetlinkRequest(type: Kind.setLink, flags: NetlinkRequest.Flag.acknowledge), index: index)
        request.append(attribute: Kind.linkName, Array(name.utf8) + [0])
        return request.bytes
    }

    /// `struct ifinfomsg`.
    private static func link(_ request: NetlinkRequest, index: Int32) -> NetlinkRequest {
        var request = request
        request.append(UInt32(0))  // family, type
        request.append(index)
        request.append(UInt64(0))  // flags, which of them change
        return request
    }

    /// The attributes of a TUN interface in a message; nil for another message or interface.
    package static func attributes(_ reply: NetlinkReply) -> TunAttributes? {
        guard reply.type == Kind.newLink, reply.body.count >= linkLength else { return nil }
        return TunAttributes(linkAttributes: NetlinkAttributes(reply.body[linkLength...]))
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int32 {
        unsafe bytes.withUnsafeBytes { unsafe $0.loadUnaligned(fromByteOffset: offset, as: Int32.self) }
    }
}
