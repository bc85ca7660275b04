// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import TunnelSystem

/// A netlink socket for requests about tracked connections in the calling thread's network namespace. Only one thread
/// at a time may use it.
///
/// Sources: linux/netfilter/nfnetlink_conntrack.h and net/netfilter/nf_conntrack_netlink.c.
package final class ConnectionSocket {
    private let socket: NetlinkSocket
    /// The socket for deletions, which happen while the other socket lists connections.
    private let deletions: NetlinkSocket

    package init() throws(LinuxNetworkError) {
        do throws(SystemError) {
            socket = try NetlinkSocket(protocolNumber: CTUNNEL_NETLINK_NETFILTER)
            deletions = try NetlinkSocket(protocolNumber: CTUNNEL_NETLINK_NETFILTER)
        } catch {
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    /// Message types of the subsystem, by their names in nfnetlink_conntrack.h.
    private enum Message {
        static let new: UInt16 = 1 << 8
        static let get: UInt16 = 1 << 8 | 1
        static let delete: UInt16 = 1 << 8 | 2
    }

    /// Attributes, by their names in nfnetlink_conntrack.h.
    private enum Attribute {
        static let originalTuple: UInt16 = 1
        static let replyTuple: UInt16 = 2
        static let id: UInt16 = 12
        static let zone: UInt16 = 18
        static let filter: UInt16 = 25
        /// The attribute with the addresses of a tuple.
        static let addresses: UInt16 = 1
        /// The attributes with the source address of a tuple.
        static let source4: UInt16 = 1
        static let source6: UInt16 = 3
        /// The attributes of a filter: the parts of each tuple that the kernel compares.
        static let originalFlags: UInt16 = 1
        static let replyFlags: UInt16 = 2
    }

    /// `CTA_FILTER_F_CTA_IP_SRC` of nf_conntrack_netlink.c: compare the source of a tuple.
    private static let comparesSource: UInt32 = 1

    /// The identity of a connection.
    private struct Connection {
        var tuple: [UInt8]
        var zone: [UInt8]?
        var id: [UInt8]?
    }

    /// The maximum number of addresses for which the kernel filters. For each address it compares all connections.
    private static let fewAddresses = 4

    /// The result of deletions.
    private struct Outcome {
        var count = 0
        var failure: LinuxNetworkError?
    }

    /// Deletes the connections that an address of these networks began or accepted, before or after address
    /// translation. Continues after a failure. It deletes each connection as it is listed, so the memory does not
    /// depend on the number of connections.
    /// - Parameter kept: Addresses that do not belong to `networks` unless `networks` contains exactly them.
    /// - Returns: The number of deleted connections, and the first error of a deletion.
    /// - Throws: The error of the kernel's list.
    @discardableResult
    package func deleteConnections(
        of networks: [IPPrefix], except kept: Set<IPAddress> = []
    ) throws(LinuxNetworkError) -> (count: Int, failure: LinuxNetworkError?) {
        var outcome = Outcome()
        for isIPv6 in [false, true] {
            let family = networks.filter { $0.isIPv6 == isIPv6 }
            if !family.isEmpty { try deleteConnections(of: family, except: kept, isIPv6: isIPv6, &outcome) }
        }
        return (outcome.count, outcome.failure)
    }

    /// Whether the error means that the kernel lacks the operation.
    package static func isUnsupported(_ error: LinuxNetworkError) -> Bool {
        [EINVAL, EOPNOTSUPP, EPROTONOSUPPORT, EAFNOSUPPORT].contains(error.errno)
    }

    /// `struct nfgenmsg` of a family.
    private static func header(isIPv6: Bool) -> [UInt8] { [UInt8(isIPv6 ? AF_INET6 : AF_INET), 0, 0, 0] }

    private func deleteConnections(
        of networks: [IPPrefix], except kept: Set<IPAddress>, isIPv6: Bool, _ outcome: inout Outcome
    ) throws(LinuxNetworkError) {
        let request = NetlinkRequest(type: Message.get, flags: Netlink.dump, body: Self.header(isIPv6: isIPv6))
        if networks.count <= Self.fewAddresses, networks.allSatisfy({ $0.length == $0.address.bitWidth }) {
            do throws(LinuxNetworkError) { return try deleteFiltered(networks, request, &outcome) } catch {
                guard Self.isUnsupported(error) else { throw error }
            }
        }
        let addresses = Set(networks.filter { $0.length == $0.address.bitWidth }.map(\.address))
        let others = networks.filter { $0.length < $0.address.bitWidth }
        try deleteListed(request, isIPv6: isIPv6, &outcome) { ends in
            if ends.contains(where: addresses.contains) { return true }
            return ends.contains { address in
                !kept.contains(address) && others.contains { $0.contains(address) }
            }
        }
    }

    private func deleteFiltered(
        _ networks: [IPPrefix], _ request: NetlinkRequest, _ outcome: inout Outcome
    ) throws(LinuxNetworkError) {
        for network in networks {
            // The source of the original tuple is the end that began, and the source of the reply tuple is the end that
            // answers. A kernel before 5.8 ignores the filter and lists all connections.
            for (tuple, flags) in [
                (Attribute.originalTuple, Attribute.originalFlags), (Attribute.replyTuple, Attribute.replyFlags),
            ] {
                let filtered = Self.filtered(request, network.address, tuple, flags)
                try deleteListed(filtered, isIPv6: network.isIPv6, &outcome) { $0.contains(network.address) }
            }
        }
    }

    private func deleteListed(
        _ request: NetlinkRequest, isIPv6: Bool, _ outcome: inout Outcome, where isWanted: ([IPAddress]) -> Bool
    ) throws(LinuxNetworkError) {
        do throws(SystemError) {
            try socket.exchange(request, "list the tracked connections") { reply in
                guard reply.type == Message.new else { return }
                let attributes = NetlinkReader(bytes: reply.body).attributes(from: 4)
                guard let tuple = attributes[Attribute.originalTuple],
                    isWanted(Self.addresses(attributes))
                else { return }
                let connection = Connection(
                    tuple: tuple, zone: attributes[Attribute.zone], id: attributes[Attribute.id])
                do throws(LinuxNetworkError) {
                    if try delete(connection, isIPv6: isIPv6) { outcome.count += 1 }
                } catch {
                    outcome.failure = outcome.failure ?? error
                }
            }
        } catch {
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    /// Returns a request for connections with this address as the source of a tuple.
    private static func filtered(
        _ request: NetlinkRequest, _ address: IPAddress, _ tuple: UInt16, _ flags: UInt16
    ) -> NetlinkRequest {
        let empty = NetlinkRequest(type: Message.get, body: [])
        var (source, contents, filter, filtered) = (empty, empty, empty, request)
        source.append(address.isIPv6 ? Attribute.source6 : Attribute.source4, address.bytes)
        contents.append(Attribute.addresses | Netlink.nested, source.body)
        filter.append(flags, comparesSource)
        filtered.append(tuple | Netlink.nested, contents.body)
        filtered.append(Attribute.filter | Netlink.nested, filter.body)
        return filtered
    }

    /// Returns the addresses of both ends, before and after address translation.
    private static func addresses(_ attributes: NetlinkAttributes) -> [IPAddress] {
        [Attribute.originalTuple, Attribute.replyTuple].flatMap { kind in
            attributes.nested(kind)?.nested(Attribute.addresses)?.values.compactMap { IPAddress(bytes: $0) } ?? []
        }
    }

    /// - Returns: Whether the connection existed.
    private func delete(_ connection: Connection, isIPv6: Bool) throws(LinuxNetworkError) -> Bool {
        var request = NetlinkRequest(type: Message.delete, body: Self.header(isIPv6: isIPv6))
        request.append(Attribute.originalTuple | Netlink.nested, connection.tuple)
        if let zone = connection.zone { request.append(Attribute.zone, zone) }
        // Without the ID, a new connection with the same ends could be deleted.
        if let id = connection.id { request.append(Attribute.id, id) }
        do throws(SystemError) {
            _ = try deletions.exchange(request, "delete a tracked connection")
            return true
        } catch {
            guard error.errno != ENOENT else { return false }
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }
}
