// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import TunnelSystem

/// Requests to the kernel about one interface, and the parsing of its answers (rtnetlink(7)).
package enum InterfaceMessage {
    /// Attribute kinds, by the names of linux/if_link.h and if_addr.h.
    private enum Kind {
        static let linkName: UInt16 = 3
        static let address: UInt16 = 1
        static let localAddress: UInt16 = 2
    }

    private static let inet: UInt8 = 2
    private static let inet6: UInt8 = 10
    private static let linkLength = 16
    private static let addressLength = 8

    /// A request for the addresses of all interfaces, since not every kernel can select those of one.
    package static let addressList = NetlinkRequest(
        type: Netlink.getAddress, flags: Netlink.dump, body: [UInt8](repeating: 0, count: addressLength))

    /// A request that adds an address that the interface does not have yet, or removes one.
    package static func change(_ address: InterfaceAddress, isAdded: Bool, index: Int32) -> NetlinkRequest {
        var request = NetlinkRequest(
            type: isAdded ? Netlink.newAddress : Netlink.deleteAddress,
            flags: isAdded ? Netlink.create | Netlink.exclusive : 0,
            body: [address.isIPv6 ? inet6 : inet, UInt8(clamping: address.prefixLength), 0, 0]
                + NetlinkRequest.bytes(index))
        request.append(Kind.localAddress, address.address.bytes)
        request.append(Kind.address, (address.peer ?? address.address).bytes)
        return request
    }

    /// The address in a message; `nil` for another message, or one about another interface.
    package static func address(_ reply: NetlinkReply, index: Int32) -> InterfaceAddress? {
        guard reply.type == Netlink.newAddress, reply.body.count >= addressLength else { return nil }
        let family = reply.body[0]
        guard family == inet || family == inet6,
            NetlinkReader(bytes: reply.body).number(at: 4, as: Int32.self) == index
        else { return nil }
        let attributes = NetlinkReader(bytes: reply.body).attributes(from: addressLength)
        func host(_ kind: UInt16) -> IPAddress? {
            guard let bytes = attributes[kind], bytes.count == (family == inet6 ? 16 : 4) else { return nil }
            return IPAddress(bytes: bytes)
        }
        // With a peer, the address attribute is the peer's, and the local attribute is the interface's.
        guard let far = host(Kind.address) ?? host(Kind.localAddress) else { return nil }
        let near = host(Kind.localAddress) ?? far
        return InterfaceAddress(near, prefixLength: Int(reply.body[1]), peer: far == near ? nil : far)
    }

    /// Asks for an interface by its number.
    package static func description(index: Int32) -> NetlinkRequest { link(Netlink.getLink, index: index) }

    /// Asks for an interface by its name.
    package static func description(name: String) -> NetlinkRequest {
        var request = link(Netlink.getLink, index: 0)
        request.append(Kind.linkName, name)
        return request
    }

    /// Gives an interface another name.
    package static func rename(to name: String, index: Int32) -> NetlinkRequest {
        var request = link(Netlink.setLink, index: index)
        request.append(Kind.linkName, name)
        return request
    }

    private static func link(_ type: UInt16, index: Int32) -> NetlinkRequest {
        // struct ifinfomsg: family and type; index; flags and which of them change.
        NetlinkRequest(
            type: type, body: [0, 0, 0, 0] + NetlinkRequest.bytes(index) + [UInt8](repeating: 0, count: 8))
    }

    /// The attributes of a TUN interface in a message; `nil` for another message or interface.
    package static func attributes(_ reply: NetlinkReply) -> TunAttributes? {
        guard reply.type == Netlink.newLink, reply.body.count >= linkLength else { return nil }
        return TunAttributes(linkAttributes: NetlinkReader(bytes: reply.body).attributes(from: linkLength))
    }
}
