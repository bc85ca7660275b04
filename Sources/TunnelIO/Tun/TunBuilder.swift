// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The options of a new TUN device; `build()` creates it.
///
/// If a persistent interface of that name exists, the device attaches to it and sets all options, defaults included, so
/// that none of its former settings remains unnoticed.
public struct TunBuilder: Hashable, Sendable {
    /// The interface's name. The system picks the lowest free number for a name with `%d`, as in `tun%d`, or, on
    /// Darwin, for `utun` without a number. The default `nil` means `tun%d`, or `utun` on Darwin.
    public var name: String?
    /// The interface's addresses. On Linux each adds a route to its network; on Darwin the caller adds routes.
    public var addresses: [InterfaceAddress] = []
    /// The most bytes of one IP packet, 68 to 65,535; 1280 at least with an IPv6 address (RFC 8200 section 5).
    public var mtu = 1500
    /// The number of packets that the system queues for the device before it drops some; `nil` for 500. Linux only.
    public var txQueueLength: Int?
    /// Whether ``TunDevice/makeQueue()`` can give more queues. Linux only.
    public var isMultiQueue = false
    /// The work that the system does, if it supports it. Linux only.
    public var offload = OffloadOptions.environment
    /// Whether the interface stays when the last device on it is closed. Linux only.
    public var isPersistent = false
    /// The user who may attach to the interface without privileges; `nil` for none, or for the current owner of a persistent
    /// interface, since the system cannot remove an owner. Linux only.
    public var owner: UInt32?
    /// The group that may attach to the interface without privileges; nil as for ``owner``. Linux only.
    public var group: UInt32?
    /// Whether flags and a protocol number precede each packet on the descriptor (no `IFF_NO_PI`). It matters only to a
    /// program that gets the descriptor. On Linux; on Darwin the address family always precedes a packet.
    public var hasPacketInformation = false
    /// Whether the interface is brought up.
    public var isUp = false

    /// A device with a name of the system's choice, an MTU of 1500 bytes, no address, and down.
    public init(name: String? = nil) {
        self.name = name
    }

    /// The problems of the options that all systems share, each in a few words.
    var problems: [String] {
        var problems: [String] = []
        if let name, !InterfaceName.isTemplate(name) {
            problems.append(
                "'\(name)' is not an interface name of 1 to 15 characters without '/', ':', spaces, or '%' other than in one '%d'"
            )
        }
        if !(68...65_535).contains(mtu) {
            problems.append("the MTU \(mtu) must be from 68 to 65535")
        } else if mtu < 1280, addresses.contains(where: \.isIPv6) {
            problems.append("the MTU \(mtu) is less than the 1280 that IPv6 needs")
        }
        if let txQueueLength, !(0...Int(Int32.max)).contains(txQueueLength) {
            problems.append("the queue length \(txQueueLength) is not within 0 to \(Int32.max)")
        }
        for (index, address) in addresses.enumerated() {
            if addresses[..<index].contains(address) { problems.append("the address \(address) is given twice") }
        }
        if owner == .max { problems.append("the owner \(UInt32.max) is not a user ID") }
        if group == .max { problems.append("\(UInt32.max) is not a group ID") }
        return problems
    }

    /// - Throws: `.invalidOptions` with all problems.
    func validate(also more: [String] = []) throws(TunnelIOError) {
        let all = problems + more
        guard all.isEmpty else { throw TunnelIOError(.invalidOptions(all)) }
    }
}
