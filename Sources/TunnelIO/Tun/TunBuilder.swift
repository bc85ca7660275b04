// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// What a new TUN device is to be; `build()` makes it.
///
/// Where a persistent interface of that name exists already, the device attaches to it and makes it what is asked for
/// here, defaults included: nothing of what it was before is inherited silently.
public struct TunBuilder: Hashable, Sendable {
    /// The interface's name. With `%d` in it, as in `tun%d` or, on Darwin, without a number, as in `utun`, the system
    /// picks the lowest free number. Nil: `tun%d`, or `utun` on Darwin.
    public var name: String?
    /// The interface's addresses. On Linux each brings a route to its network; on Darwin routes are the caller's.
    public var addresses: [InterfaceAddress] = []
    /// The most bytes of one IP packet, 68 to 65,535; 1280 at least with an IPv6 address (RFC 8200 section 5).
    public var mtu = 1500
    /// How many packets the system queues for the device before it drops some. Nil: 500. Linux only.
    public var txQueueLength: Int?
    /// Whether ``TunDevice/makeQueue()`` can give more queues. Linux only.
    public var isMultiQueue = false
    /// What is left to the system where it can do it. Linux only.
    public var offload = OffloadOptions.environment
    /// Whether the interface stays when the last device on it is closed. Linux only.
    public var isPersistent = false
    /// The user who may attach to the interface without privileges; nil for none, or whom a persistent interface has, as
    /// the system cannot take an owner away. Linux only.
    public var owner: UInt32?
    /// The group that may attach to the interface without privileges; nil as for ``owner``. Linux only.
    public var group: UInt32?
    /// Whether flags and a protocol number stand in front of each packet on the descriptor (no `IFF_NO_PI`). It makes no
    /// difference to who uses the device but for whom the descriptor is handed to. On Linux; on Darwin the address family
    /// always does.
    public var hasPacketInformation = false
    /// Whether the interface is brought up.
    public var isUp = false

    /// A device with a name of the system's choice, an MTU of 1500 bytes, no address, and down.
    public init(name: String? = nil) {
        self.name = name
    }

    /// What is wrong with the options that are the same on all systems, each in a few words.
    var problems: [String] {
        var problems: [String] = []
        if let name, !InterfaceName.isTemplate(name) {
            problems.append(
                "'\(name)' is not an interface name of 1 to 15 characters without '/', ':', spaces, or '%' other than in one '%d'"
            )
        }
        if !(68...65_535).contains(mtu) {
            problems.append("the MTU \(mtu) is not within 68 to 65535")
        } else if mtu < 1280, addresses.contains(where: \.isIPv6) {
            problems.append("the MTU \(mtu) is less than the 1280 that IPv6 needs")
        }
        if let txQueueLength, !(0...Int(Int32.max)).contains(txQueueLength) {
            problems.append("the queue length \(txQueueLength) is not within 0 to \(Int32.max)")
        }
        for (index, address) in addresses.enumerated() {
            if addresses[..<index].contains(address) { problems.append("the address \(address) is given twice") }
        }
        if owner == .max { problems.append("the owner \(UInt32.max) means nobody") }
        if group == .max { problems.append("the group \(UInt32.max) means none") }
        return problems
    }

    /// - Throws: `.invalidOptions` with everything that is wrong.
    func validate(also more: [String] = []) throws(TunnelIOError) {
        let all = problems + more
        guard all.isEmpty else { throw TunnelIOError(.invalidOptions(all)) }
    }
}
