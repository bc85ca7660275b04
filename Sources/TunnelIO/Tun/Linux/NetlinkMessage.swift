// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import TunnelSystem

/// A netlink message about an interface or a network namespace (RFC 3549; rtnetlink(7)), with the fields that a TUN
/// device needs.
///
/// Messages can be parsed on any platform. All bounds are checked: an inconsistent message ends the datagram.
package enum NetlinkMessage: Hashable, Sendable {
    /// An interface appeared or changed. `mtu` is `nil` if the message does not contain it.
    case link(index: Int32, isUp: Bool, mtu: Int?)
    /// An interface left the namespace: it was deleted or moved.
    case linkRemoved(index: Int32)
    /// The namespace that had this id is being destroyed, with everything in it.
    case namespaceRemoved(id: Int32)
    /// The ID of the requested namespace; -1 if it has none.
    case namespace(id: Int32)
    /// The answer to a request: zero, or an error number.
    case acknowledgement(errno: Int32)

    private static let linkLength = 16
    private static let mtuAttribute: UInt16 = 4
    /// `struct rtgenmsg`, a byte, padded.
    private static let namespaceLength = 4
    private static let namespaceIDAttribute: UInt16 = 1
    private static let namespaceDescriptorAttribute: UInt16 = 3

    /// Parses a message of the kernel; `nil` for an unknown kind.
    package init?(_ reply: NetlinkReply) {
        let body = NetlinkReader(bytes: reply.body)
        switch reply.type {
        case Netlink.error:
            guard let errno = reply.errorNumber else { return nil }
            self = .acknowledgement(errno: errno)
        case Netlink.newLink, Netlink.deleteLink:
            // With a family other than AF_UNSPEC, a bridge reports its ports.
            guard reply.body.count >= Self.linkLength, reply.body[0] == 0,
                let index = body.number(at: 4, as: Int32.self), let flags = body.number(at: 8, as: UInt32.self)
            else { return nil }
            let mtu = body.attributes(from: Self.linkLength).number(Self.mtuAttribute)
            self =
                reply.type == Netlink.newLink
                ? .link(index: index, isUp: flags & 1 != 0, mtu: mtu.map { Int($0) }) : .linkRemoved(index: index)
        case Netlink.newNamespaceID, Netlink.deleteNamespaceID:
            let attributes = body.attributes(from: Self.namespaceLength)
            guard let id = attributes.number(Self.namespaceIDAttribute).map({ Int32(bitPattern: $0) }) else {
                return nil
            }
            self = reply.type == Netlink.newNamespaceID ? .namespace(id: id) : .namespaceRemoved(id: id)
        default: return nil
        }
    }

    /// A request about the id of the network namespace that `descriptor` names (rtnetlink, `RTM_NEWNSID`, `RTM_GETNSID`).
    ///
    /// If `assigns` is true, the kernel assigns a new ID; otherwise it reports the current ID.
    package static func namespaceRequest(descriptor: Int32, assigns: Bool) -> NetlinkRequest {
        var request = NetlinkRequest(
            type: assigns ? Netlink.newNamespaceID : Netlink.getNamespaceID,
            body: [UInt8](repeating: 0, count: namespaceLength))
        request.append(namespaceDescriptorAttribute, UInt32(bitPattern: descriptor))
        if assigns { request.append(namespaceIDAttribute, UInt32.max) }
        return request
    }
}
