// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
package import NetworkAddresses
import Provisioning
import TunnelSystem
import WireGuardCore

/// The only route of the `addKey` listener, for PIA's clients.
package struct AddKeyRoutes: Sendable {
    private let service: GatewayService
    private let server: Server

    /// The server's addresses in the reply.
    package struct Server: Sendable {
        /// The address of WireGuard. PIA's clients do not resolve a name in this member.
        package var address: IPAddress
        /// The server's address inside the tunnel.
        package var innerAddress: IPAddress

        package init(address: IPAddress, innerAddress: IPAddress) {
            self.address = address
            self.innerAddress = innerAddress
        }
    }

    package init(_ service: GatewayService, server: Server) {
        self.service = service
        self.server = server
    }

    private static let key = RouteDescription.Parameter("pubkey", .key, isRequired: true, "The client's key")
    private static let token = RouteDescription.Parameter(
        "pt", .text(), isRequired: true, "A token of scope addKey")

    /// The reply for a registered key.
    struct Registration: Sendable {
        let publicKey: PublicKey
        let grant: EnrolmentGrant
        let peer: EnrolmentGrant.Server
        /// The client's address in the tunnel.
        let address: IPAddress
        let server: Server
    }

    static let add = Route<Void, Registration>(
        .get, "/addKey", .addKey, "Register a key",
        reply: .one(
            ReplyShape(
                .object([
                    .init("status", .choice(["OK"])), .init("server_key", .key),
                    .init("server_port", .integer(1...65_535)), .init("server_ip", .address),
                    .init("server_vip", .address), .init("peer_ip", .prefix), .init("peer_pubkey", .key),
                    .init("dns_servers", .list(of: .address)),
                ])
            ) { made in
                .members([
                    "status": .string("OK"), "server_key": .string(made.peer.publicKey.base64),
                    "server_port": .count(made.peer.endpoints.first?.port ?? 0),
                    "server_ip": .string("\(made.server.address)"),
                    "server_vip": .string("\(made.server.innerAddress)"), "peer_ip": .string("\(made.address)/32"),
                    "peer_pubkey": .string(made.publicKey.base64),
                    "dns_servers": .texts(made.grant.dns.filter { !$0.isIPv6 }),
                ])
            }, "The reply of PIA's servers"), parameters: [key, token], errors: [409])

    package func register(in list: inout RouteList) {
        list.register(Self.add) { call in
            let key = try ValueFormat<PublicKey>.key.decode(.string(call[Self.key] ?? ""), Self.key.name)
            let grant = try await service.addKey(
                token: call[Self.token] ?? "", publicKey: key, from: call.address)
            guard let address = grant.addresses.first(where: { !$0.isIPv6 }), let peer = grant.servers.first
            else { throw GatewayError.unavailable("addKey needs IPv4 addresses in the tunnel") }
            return Registration(publicKey: key, grant: grant, peer: peer, address: address, server: server)
        }
    }
}
