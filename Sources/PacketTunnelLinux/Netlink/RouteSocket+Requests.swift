// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import PacketTunnel
import TunnelSystem

// MARK: - Links and addresses

extension RouteSocket {
    /// An interface as the kernel reports it.
    package struct Link: Hashable, Sendable {
        package var index: UInt32
        package var name: String
        package var isUp: Bool
        package var isLoopback: Bool
        package var mtu: Int
        /// The hardware type, as a number of linux/if_arp.h: 1 is Ethernet and compatible hardware.
        package var hardware: UInt16
        /// The driver of a virtual interface, such as `bridge` or `veth`; `nil` for hardware.
        package var kind: String?
    }

    private enum LinkAttribute {
        static let name: UInt16 = 3
        static let mtu: UInt16 = 4
        /// `IFLA_LINKINFO`, and `IFLA_INFO_KIND` in it.
        static let info: UInt16 = 18
        static let infoKind: UInt16 = 1
    }

    private static let linkLength = 16

    private static func linkRequest(
        type: UInt16, index: UInt32, flags: UInt32 = 0, change: UInt32 = 0
    ) -> NetlinkRequest {
        NetlinkRequest(
            type: type, flags: 0,
            body: [0, 0, 0, 0] + NetlinkRequest.bytes(index) + NetlinkRequest.bytes(flags)
                + NetlinkRequest.bytes(change))
    }

    private static func link(_ body: [UInt8]) -> Link? {
        let reader = NetlinkReader(bytes: body)
        guard body.count >= linkLength, let index = reader.number(at: 4, as: UInt32.self),
            let flags = reader.number(at: 8, as: UInt32.self)
        else { return nil }
        let attributes = reader.attributes(from: linkLength)
        return Link(
            index: index, name: attributes.text(LinkAttribute.name) ?? "", isUp: flags & 1 != 0,
            isLoopback: flags & 8 != 0, mtu: Int(attributes.number(LinkAttribute.mtu) ?? 0),
            hardware: reader.number(at: 2, as: UInt16.self) ?? 0,
            kind: attributes.nested(LinkAttribute.info)?.text(LinkAttribute.infoKind))
    }

    /// All interfaces.
    package func links() throws(LinuxNetworkError) -> [Link] {
        try dump(Self.linkRequest(type: Netlink.getLink, index: 0), answer: Netlink.newLink, "list the interfaces")
            .compactMap(Self.link)
    }

    /// Returns the interface of this name, or `nil` if it does not exist.
    package func link(named name: String) throws(LinuxNetworkError) -> Link? {
        var request = Self.linkRequest(type: Netlink.getLink, index: 0)
        request.append(LinkAttribute.name, name)
        do throws(LinuxNetworkError) {
            return Self.link(try ask(request, answer: Netlink.newLink, "look up interface '\(name)'"))
        } catch {
            guard error.errno == ENODEV else { throw error }
            return nil
        }
    }

    private static let familiesAttribute: UInt16 = 26
    /// `IFLA_INET6_ADDR_GEN_MODE` of `AF_INET6` with the value `IN6_ADDR_GEN_MODE_NONE`, as nested attributes.
    private static let noGeneratedAddress: [UInt8] =
        NetlinkRequest.bytes(UInt16(12)) + NetlinkRequest.bytes(UInt16(AF_INET6))
        + NetlinkRequest.bytes(UInt16(5)) + NetlinkRequest.bytes(UInt16(8)) + [1, 0, 0, 0]

    /// Sets the MTU of a tunnel's interface and brings it up.
    ///
    /// Like the kernel's own WireGuard interfaces, it gets no link-local address. With one the kernel would send router
    /// solicitations, and so keep an idle tunnel busy.
    package func bringUp(index: UInt32, mtu: Int?) throws(LinuxNetworkError) {
        var quiet = Self.linkRequest(type: Netlink.newLink, index: index)
        quiet.append(Self.familiesAttribute, Self.noGeneratedAddress)
        // The setting does not exist without IPv6.
        let isQuiet = (try? perform(quiet, "keep interface \(index) quiet")) != nil
        var request = Self.linkRequest(type: Netlink.newLink, index: index, flags: 1, change: 1)
        if let mtu { request.append(LinkAttribute.mtu, UInt32(clamping: mtu)) }
        try perform(request, "bring up interface \(index)\(mtu.map { " with an MTU of \($0)" } ?? "")")
        guard !isQuiet else { return }
        // Before, the MTU was too small for IPv6. Now the kernel enables IPv6 and adds a link-local address.
        try? perform(quiet, "keep interface \(index) quiet")
        for address in try addresses(index: index) where address.isIPv6 && address.address.isLinkLocal {
            try remove(address, index: index)
        }
    }

    private static let addressAttribute: UInt16 = 1
    private static let localAttribute: UInt16 = 2
    private static let addressFlagsAttribute: UInt16 = 8
    /// `IFA_F_NODAD`: no duplicate address detection, because no other host on a tunnel's link can have the address.
    private static let noDuplicateDetection: UInt32 = 0x02

    private func addressRequest(_ address: InterfaceAddress, index: UInt32, type: UInt16) -> NetlinkRequest {
        var request = NetlinkRequest(
            type: type, flags: type == Netlink.newAddress ? Netlink.create | Netlink.exclusive : 0,
            body: [address.address.addressFamily, UInt8(address.prefixLength), 0, 0] + NetlinkRequest.bytes(index))
        request.append(Self.localAttribute, address.address.bytes)
        request.append(Self.addressAttribute, address.address.bytes)
        if address.isIPv6 { request.append(Self.addressFlagsAttribute, Self.noDuplicateDetection) }
        return request
    }

    /// Adds an address to an interface.
    package func add(_ address: InterfaceAddress, index: UInt32) throws(LinuxNetworkError) {
        try perform(
            addressRequest(address, index: index, type: Netlink.newAddress), "add \(address) to interface \(index)")
    }

    /// Removes an address from an interface.
    package func remove(_ address: InterfaceAddress, index: UInt32) throws(LinuxNetworkError) {
        try perform(
            addressRequest(address, index: index, type: Netlink.deleteAddress),
            "remove \(address) from interface \(index)")
    }

    /// An address of an interface.
    package struct Assignment: Hashable, Sendable {
        /// The interface's number.
        package var interface: UInt32
        package var address: InterfaceAddress
    }

    /// The addresses of an interface.
    package func addresses(index: UInt32) throws(LinuxNetworkError) -> [InterfaceAddress] {
        try addresses().filter { $0.interface == index }.map(\.address)
    }

    /// The addresses of all interfaces.
    package func addresses() throws(LinuxNetworkError) -> [Assignment] {
        let request = NetlinkRequest(type: Netlink.getAddress, flags: 0, body: [UInt8](repeating: 0, count: 8))
        return try dump(request, answer: Netlink.newAddress, "list the addresses").compactMap { body in
            let reader = NetlinkReader(bytes: body)
            guard let length = reader.number(at: 1, as: UInt8.self),
                let owner = reader.number(at: 4, as: UInt32.self)
            else { return nil }
            let attributes = reader.attributes(from: 8)
            return (attributes[Self.localAttribute] ?? attributes[Self.addressAttribute])
                .flatMap { IPAddress(bytes: $0) }
                .flatMap { InterfaceAddress($0, prefixLength: Int(length)) }
                .map { Assignment(interface: owner, address: $0) }
        }
    }
}

// MARK: - Routes and rules

extension RouteSocket {
    /// Adds a route, and replaces one with the same destination, metric and table.
    package func replace(_ route: Route) throws(LinuxNetworkError) {
        try perform(
            route.request(type: Netlink.newRoute, flags: Netlink.create | Netlink.replace), "make \(route)")
    }

    /// Adds a route.
    /// - Throws: `EEXIST` if a route to the same destination with the same metric is in the same table.
    package func add(_ route: Route) throws(LinuxNetworkError) {
        try perform(
            route.request(type: Netlink.newRoute, flags: Netlink.create | Netlink.exclusive), "make \(route)")
    }

    /// Deletes exactly this route.
    package func remove(_ route: Route) throws(LinuxNetworkError) {
        try perform(route.request(type: Netlink.deleteRoute, flags: 0), "delete \(route)")
    }

    /// Restores a route that existed before.
    package func restore(_ route: ForeignRoute) throws(LinuxNetworkError) {
        try perform(route.restoration, "restore a route")
    }

    /// The routes of all tables of a family.
    package func routes(isIPv6: Bool) throws(LinuxNetworkError) -> [ForeignRoute] {
        var body = [UInt8](repeating: 0, count: Route.fixedLength)
        body[0] = UInt8(isIPv6 ? AF_INET6 : AF_INET)
        return try dump(
            NetlinkRequest(type: Netlink.getRoute, flags: 0, body: body), answer: Netlink.newRoute,
            "list the routes"
        )
        .map(ForeignRoute.init).filter { !$0.isCached }
    }

    /// The next routers of the default routes, of any table.
    package func defaultGateways() throws(LinuxNetworkError) -> [IPAddress] {
        (try routes(isIPv6: false) + routes(isIPv6: true)).filter { $0.key?.destination.length == 0 }
            .compactMap(\.gateway)
    }

    /// Adds a policy rule.
    /// - Throws: `EEXIST` if an equal rule exists.
    package func add(_ rule: PolicyRule) throws(LinuxNetworkError) {
        try perform(rule.request(type: Netlink.newRule, flags: Netlink.create | Netlink.exclusive), "make \(rule)")
    }

    /// Deletes a policy rule.
    package func remove(_ rule: PolicyRule) throws(LinuxNetworkError) {
        try perform(rule.request(type: Netlink.deleteRule, flags: 0), "delete \(rule)")
    }

    /// Returns the policy rules of a family, in the order of their evaluation.
    func rules(isIPv6: Bool) throws(LinuxNetworkError) -> [PolicyRule.Found] {
        var body = [UInt8](repeating: 0, count: 12)
        body[0] = UInt8(isIPv6 ? AF_INET6 : AF_INET)
        return try dump(
            NetlinkRequest(type: Netlink.getRule, flags: 0, body: body), answer: Netlink.newRule,
            "list the policy rules"
        )
        .compactMap(PolicyRule.parse)
    }

    /// The result of a route lookup for an address.
    package struct RouteLookup: Hashable, Sendable {
        /// The interface to send packets through.
        package var interface: UInt32
        /// The next router; `nil` if the destination is on the link.
        package var gateway: IPAddress?
        /// The source address of the packets.
        package var source: IPAddress?
        /// The largest packet in bytes: the route's MTU if it has one, otherwise the interface's MTU.
        package var mtu: Int
    }

    /// Returns the route to an address for packets with this mark, or `nil` if there is none.
    package func way(to address: IPAddress, mark: UInt32 = 0) throws(LinuxNetworkError) -> RouteLookup? {
        var request = NetlinkRequest(
            type: Netlink.getRoute, flags: 0,
            body: [address.addressFamily, UInt8(address.bitWidth)] + [UInt8](repeating: 0, count: 10))
        request.append(Route.Attribute.destination, address.bytes)
        if mark != 0 { request.append(Route.Attribute.mark, mark) }
        let body: [UInt8]
        do throws(LinuxNetworkError) {
            body = try ask(request, answer: Netlink.newRoute, "look up the route to \(address)")
        } catch {
            guard [ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EAFNOSUPPORT].contains(error.errno) else {
                throw error
            }
            return nil
        }
        let found = ForeignRoute(body: body)
        let attributes = NetlinkReader(bytes: body).attributes(from: Route.fixedLength)
        // For IPv6 the kernel returns an "unreachable" entry in cases where it returns an error for IPv4.
        guard found.interface != 0, found.type == 1 || found.type == 2 else { return nil }
        let metrics = NetlinkReader(bytes: attributes[Route.Attribute.metrics] ?? []).attributes(from: 0)
        let routeMTU = metrics.number(Route.Attribute.mtuMetric).map(Int.init)
        var mtu = routeMTU
        if mtu == nil { mtu = try links().first { $0.index == found.interface }?.mtu }
        return RouteLookup(
            interface: found.interface, gateway: found.gateway,
            source: attributes[Route.Attribute.preferredSource].flatMap { IPAddress(bytes: $0) },
            mtu: mtu ?? 1500)
    }
}
