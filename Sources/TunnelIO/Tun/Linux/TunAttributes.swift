// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// A Linux TUN interface's kind, and the user and group that may attach to it, as the kernel reports them (`IFLA_INFO_DATA`,
/// linux/if_link.h).
public struct TunAttributes: Hashable, Sendable {
    /// The user who may attach without privileges; `nil` if there is none.
    public var owner: UInt32?
    /// The group that may attach without privileges; `nil` if there is none.
    public var group: UInt32?
    /// Whether the last attachment has packet information before each packet.
    public var hasPacketInformation = false
    /// Whether the last attachment has a virtio header before each packet.
    public var hasVirtioHeader = false
    /// Whether the interface stays when the last device on it is closed.
    public var isPersistent = false
    /// Whether the interface may have several queues.
    public var isMultiQueue = false
    /// The number of attached queues; `nil` if the interface can have only one.
    public var queueCount: Int?

    /// The attributes of an interface with one queue, no owner and no headers before packets.
    package init() {}

    private enum Kind {
        static let linkInformation: UInt16 = 18
        static let kind: UInt16 = 1
        static let data: UInt16 = 2
        static let owner: UInt16 = 1
        static let group: UInt16 = 2
        static let hasPacketInformation: UInt16 = 4
        static let hasVirtioHeader: UInt16 = 5
        static let isPersistent: UInt16 = 6
        static let isMultiQueue: UInt16 = 7
        static let queueCount: UInt16 = 8
    }

    /// Reads the attributes of an interface; `nil` if it is not a TUN or TAP device, or the kernel does not report them.
    package init?(linkAttributes: NetlinkAttributes) {
        guard let information = linkAttributes.nested(Kind.linkInformation), information.text(Kind.kind) == "tun",
            let data = information.nested(Kind.data)
        else { return nil }
        func flag(_ kind: UInt16) -> Bool { (data[kind]?.first ?? 0) != 0 }
        owner = data.number(Kind.owner)
        group = data.number(Kind.group)
        hasPacketInformation = flag(Kind.hasPacketInformation)
        hasVirtioHeader = flag(Kind.hasVirtioHeader)
        isPersistent = flag(Kind.isPersistent)
        isMultiQueue = flag(Kind.isMultiQueue)
        queueCount = data.number(Kind.queueCount).map { Int($0) }
    }
}
