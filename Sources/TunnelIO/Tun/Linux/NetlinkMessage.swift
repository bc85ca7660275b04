// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A netlink message about an interface or a network namespace (RFC 3549; rtnetlink(7)), as far as a TUN device cares.
///
/// Reading needs no Linux, and everything is bounds-checked: a message that does not hold together ends the datagram.
package enum NetlinkMessage: Hashable, Sendable {
    /// An interface appeared or changed. `mtu` is nil where the message does not say.
    case link(index: Int32, isUp: Bool, mtu: Int?)
    /// An interface left the namespace: it was deleted, or moved to another one.
    case linkRemoved(index: Int32)
    /// The namespace that had this id is being destroyed, with everything in it.
    case namespaceRemoved(id: Int32)
    /// The id of the namespace that was asked for; -1 when it has none.
    case namespace(id: Int32)
    /// The answer to a request: zero, or an error number.
    case acknowledgement(errno: Int32)

    /// Message types, attribute kinds and flags, by the names of linux/netlink.h, rtnetlink.h and net_namespace.h.
    private enum Kind {
        static let error: UInt16 = 2
        static let newLink: UInt16 = 16
        static let deleteLink: UInt16 = 17
        static let newNamespaceID: UInt16 = 88
        static let deleteNamespaceID: UInt16 = 89
        static let getNamespaceID: UInt16 = 90
        static let mtuAttribute: UInt16 = 4
        static let namespaceIDAttribute: UInt16 = 1
        static let namespaceDescriptorAttribute: UInt16 = 3
    }

    private static let headerLength = 16
    private static let linkLength = 16
    /// `struct rtgenmsg`, a byte, padded.
    private static let namespaceLength = 4

    /// The messages of one datagram that are of a kind known here, in order.
    package static func parse(_ datagram: UnsafeRawBufferPointer) -> [NetlinkMessage] {
        var messages: [NetlinkMessage] = []
        unsafe forEach(datagram) { type, _, body in
            if let message = unsafe message(type: type, body: body) { messages.append(message) }
        }
        return messages
    }

    /// The messages of one datagram as they are, in order.
    package static func replies(_ datagram: UnsafeRawBufferPointer) -> [NetlinkReply] {
        var replies: [NetlinkReply] = []
        unsafe forEach(datagram) { type, flags, body in
            unsafe replies.append(NetlinkReply(type: type, flags: flags, body: Array(body)))
        }
        return replies
    }

    private static func forEach(
        _ datagram: UnsafeRawBufferPointer, _ body: (_ type: UInt16, _ flags: UInt16, UnsafeRawBufferPointer) -> Void
    ) {
        var rest = unsafe datagram
        while rest.count >= headerLength {
            let length = unsafe Int(rest.loadUnaligned(as: UInt32.self))
            guard length >= headerLength, length <= rest.count else { break }
            unsafe body(
                rest.loadUnaligned(fromByteOffset: 4, as: UInt16.self),
                rest.loadUnaligned(fromByteOffset: 6, as: UInt16.self),
                UnsafeRawBufferPointer(rebasing: rest[headerLength..<length]))
            unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(aligned(length)))
        }
    }

    private static func message(type: UInt16, body: UnsafeRawBufferPointer) -> NetlinkMessage? {
        switch type {
        case Kind.error:
            guard body.count >= 4 else { return nil }
            let code = unsafe body.loadUnaligned(as: Int32.self)
            return .acknowledgement(errno: code == .min ? .max : abs(code))
        case Kind.newLink, Kind.deleteLink:
            // A family other than AF_UNSPEC is a bridge speaking of its ports.
            guard body.count >= linkLength, unsafe body[0] == 0 else { return nil }
            let index = unsafe body.loadUnaligned(fromByteOffset: 4, as: Int32.self)
            guard type == Kind.newLink else { return .linkRemoved(index: index) }
            let flags = unsafe body.loadUnaligned(fromByteOffset: 8, as: UInt32.self)
            let attributes = unsafe UnsafeRawBufferPointer(rebasing: body.dropFirst(linkLength))
            let mtu = unsafe number(of: Kind.mtuAttribute, in: attributes)
            return .link(index: index, isUp: flags & 1 != 0, mtu: mtu.map { Int(UInt32(bitPattern: $0)) })
        case Kind.newNamespaceID, Kind.deleteNamespaceID:
            let attributes = unsafe UnsafeRawBufferPointer(rebasing: body.dropFirst(namespaceLength))
            guard let id = unsafe number(of: Kind.namespaceIDAttribute, in: attributes) else { return nil }
            return type == Kind.newNamespaceID ? .namespace(id: id) : .namespaceRemoved(id: id)
        default:
            return nil
        }
    }

    /// The 32-bit attribute of this kind.
    private static func number(of kind: UInt16, in attributes: UnsafeRawBufferPointer) -> Int32? {
        var rest = unsafe attributes
        while rest.count >= 4 {
            let length = unsafe Int(rest.loadUnaligned(as: UInt16.self))
            guard length >= 4, length <= rest.count else { return nil }
            // The two highest bits say how the attribute is nested and ordered.
            let found = unsafe rest.loadUnaligned(fromByteOffset: 2, as: UInt16.self) & 0x3fff
            if found == kind, length >= 8 { return unsafe rest.loadUnaligned(fromByteOffset: 4, as: Int32.self) }
            unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(aligned(length)))
        }
        return nil
    }

    /// A request about the id of the network namespace that `descriptor` names (rtnetlink, `RTM_NEWNSID`, `RTM_GETNSID`).
    ///
    /// When `assigns` is set it asks for a new id to be given, and wants an acknowledgement; else it asks for the present id.
    package static func namespaceRequest(descriptor: Int32, assigns: Bool) -> [UInt8] {
        var request = NetlinkRequest(
            type: assigns ? Kind.newNamespaceID : Kind.getNamespaceID,
            flags: assigns ? NetlinkRequest.Flag.acknowledge : 0)
        request.append(UInt32(0))  // struct rtgenmsg
        func bytes(_ number: Int32) -> [UInt8] { unsafe withUnsafeBytes(of: number) { unsafe Array($0) } }
        request.append(attribute: Kind.namespaceDescriptorAttribute, bytes(descriptor))
        if assigns { request.append(attribute: Kind.namespaceIDAttribute, bytes(-1)) }
        return request.bytes
    }

    /// The next multiple of four, where whatever follows begins.
    static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
}
