// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import PacketTunnel
import TunnelSystem

/// A routing table entry of the kinds that a tunnel makes (ip-route(8)).
package struct Route: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The treatment of packets.
    package enum Kind: String, Sendable, Codable, CaseIterable {
        /// Packets are sent through the interface.
        case unicast
        /// The search continues with the next policy rule, as if this table had no match.
        case `throw`
        /// Packets are refused.
        case unreachable

        /// `RTN_UNICAST` and its like.
        var number: UInt8 {
            switch self {
            case .unicast: 1
            case .throw: 9
            case .unreachable: 7
            }
        }
    }

    /// The destinations.
    package var destination: IPPrefix
    /// The treatment of packets to the destination.
    package var kind: Kind
    /// The index of the interface to send packets through; 0 if packets are not sent.
    package var interface: UInt32
    /// The routing table's number.
    package var table: UInt32
    /// The metric: of the routes to the same destinations, the one with the lowest metric is used.
    package var metric: UInt32

    /// The number of the main table, the default of routes.
    package static let mainTable: UInt32 = 254
    /// The table of the host's own addresses, which the kernel fills.
    static let localTable: UInt32 = 255

    package init(
        to destination: IPPrefix, kind: Kind = .unicast, interface: UInt32 = 0, table: UInt32 = mainTable,
        metric: UInt32? = nil
    ) {
        self.destination = destination
        self.kind = kind
        self.interface = interface
        self.table = table
        // Use the most preferred metric. The kernel treats an IPv6 metric of 0 as 1024.
        self.metric = metric ?? (destination.isIPv6 ? 1 : 0)
    }

    package var description: String {
        "\(kind.rawValue) route to \(destination) in table \(table)"
            + (kind == .unicast ? " by interface \(interface)" : "")
    }

    /// Attribute kinds of `struct rtmsg` and its numbers, by their names in linux/rtnetlink.h.
    enum Attribute {
        static let destination: UInt16 = 1
        static let interface: UInt16 = 4
        static let gateway: UInt16 = 5
        static let metric: UInt16 = 6
        static let preferredSource: UInt16 = 7
        static let metrics: UInt16 = 8
        static let cacheInformation: UInt16 = 12
        static let table: UInt16 = 15
        static let mark: UInt16 = 16
        /// Among the metrics.
        static let mtuMetric: UInt16 = 2
    }

    static let fixedLength = 12
    /// `RTPROT_BOOT`, which ip(8) uses too.
    private static let bootProtocol: UInt8 = 3

    /// The message that makes or deletes the route.
    func request(type: UInt16, flags: UInt16) -> NetlinkRequest {
        // The scope is `link` for a unicast IPv4 route without a gateway. The kernel ignores it for others.
        let scope: UInt8 = kind == .unicast && !destination.isIPv6 ? 253 : 0
        var request = NetlinkRequest(
            type: type, flags: flags,
            body: [
                destination.address.addressFamily, UInt8(destination.length), 0, 0,
                UInt8(table < 256 ? table : 0), Self.bootProtocol, scope, kind.number, 0, 0, 0, 0,
            ])
        if destination.length > 0 { request.append(Attribute.destination, destination.address.bytes) }
        request.append(Attribute.table, table)
        if metric != 0 { request.append(Attribute.metric, metric) }
        if interface != 0 { request.append(Attribute.interface, interface) }
        return request
    }
}

/// Another program's route, with everything that the kernel reported, so that it can be restored exactly.
package struct ForeignRoute: Hashable, Sendable, Codable {
    /// The body of the kernel's message about it: `struct rtmsg` and attributes.
    package var body: [UInt8]

    /// The fields that identify a route.
    struct Key: Hashable {
        var destination: IPPrefix
        var table: UInt32
        var metric: UInt32
        var typeOfService: UInt8

        init(destination: IPPrefix, table: UInt32, metric: UInt32, typeOfService: UInt8) {
            self.destination = destination
            self.table = table
            self.metric = metric
            self.typeOfService = typeOfService
        }

        /// The key of one of our routes.
        init(of route: Route) {
            self.init(destination: route.destination, table: route.table, metric: route.metric, typeOfService: 0)
        }
    }

    /// The key of the route, or `nil` if the body is not a route.
    var key: Key? {
        let reader = NetlinkReader(bytes: body)
        guard body.count >= Route.fixedLength, let family = reader.number(at: 0, as: UInt8.self),
            let length = reader.number(at: 1, as: UInt8.self), let service = reader.number(at: 3, as: UInt8.self),
            let shortTable = reader.number(at: 4, as: UInt8.self)
        else { return nil }
        let isIPv6 = family == UInt8(AF_INET6)
        guard isIPv6 || family == UInt8(AF_INET) else { return nil }
        let attributes = reader.attributes(from: Route.fixedLength)
        let address =
            attributes[Route.Attribute.destination].flatMap { IPAddress(bytes: $0) }
            ?? (isIPv6 ? IPAddress.v6(0, 0) : .v4(0))
        guard address.isIPv6 == isIPv6, let destination = IPPrefix(address, length: Int(length)) else {
            return nil
        }
        return Key(
            destination: destination,
            table: attributes.number(Route.Attribute.table) ?? UInt32(shortTable),
            metric: attributes.number(Route.Attribute.metric) ?? 0, typeOfService: service)
    }

    /// The interface of the route; 0 if it has several or none.
    var interface: UInt32 {
        NetlinkReader(bytes: body).attributes(from: Route.fixedLength).number(Route.Attribute.interface) ?? 0
    }

    /// The interface to send packets through; 0 if packets are not sent, even though the kernel lists the loopback
    /// interface for some of these routes.
    var wayOut: UInt32 { type == Route.Kind.unicast.number ? interface : 0 }

    /// The gateway, or `nil` if destinations are on the link.
    var gateway: IPAddress? {
        NetlinkReader(bytes: body).attributes(from: Route.fixedLength)[Route.Attribute.gateway]
            .flatMap { IPAddress(bytes: $0) }
    }

    /// `RTN_UNICAST` and its like.
    var type: UInt8 { NetlinkReader(bytes: body).number(at: 7, as: UInt8.self) ?? 0 }

    /// Whether the kernel cached the route for one destination. Then it is not a table entry.
    var isCached: Bool { (NetlinkReader(bytes: body).number(at: 8, as: UInt32.self) ?? 0) & 0x200 != 0 }

    /// The message that restores the route, and replaces one with the same key.
    var restoration: NetlinkRequest {
        var fixed = Array(body.prefix(Route.fixedLength))
        // RTNH_F_DEAD, RTNH_F_LINKDOWN and similar flags describe the kernel's state and do not belong in a request.
        if fixed.count == Route.fixedLength { fixed[8] &= 0x04 }
        var request = NetlinkRequest(
            type: Netlink.newRoute, flags: Netlink.create | Netlink.replace | Netlink.acknowledge, body: fixed)
        let attributes = NetlinkReader(bytes: body).attributes(from: Route.fixedLength)
        for (kind, value) in attributes.sorted(by: { $0.key < $1.key })
        where kind != Route.Attribute.cacheInformation {
            request.append(kind, value)
        }
        return request
    }
}
