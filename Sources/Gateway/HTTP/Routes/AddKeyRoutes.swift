// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
package import NetworkAddresses
import Provisioning
import TunnelSystem
import WireGuardCore

/// PIA's `addKey`, for PIA's clients: all that its listener has.
package struct AddKeyRoutes: Sendable {
    private let service: GatewayService
    private let server: Server

    /// What the reply says of the server.
    package struct Server: Sendable {
        /// Where the client finds WireGuard. PIA's clients know no names here.
        package var address: IPAddress
        /// Inside the tunnel.
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

    package var all: [APIRoute] {
        [
            APIRoute(
                .get, "/addKey", .open, "Register a key",
                parameters: [
                    .init(name: "pubkey", schema: .key, isRequired: true, note: "The client's key"),
                    .init(name: "pt", schema: .text(), isRequired: true, note: "A token of scope addKey"),
                ],
                replies: [
                    .init(
                        status: 200,
                        schema: .object([
                            .init("status", .choice(["OK"])), .init("server_key", .key),
                            .init("server_port", .integer(1...65_535)), .init("server_ip", .address),
                            .init("server_vip", .address), .init("peer_ip", .prefix), .init("peer_pubkey", .key),
                            .init("dns_servers", .list(of: .address)),
                        ]), note: "As PIA's servers answer")
                ], problems: [401, 403, 409, 429]
            ) { (request) async throws(GatewayError) in
                guard let text = request.query["pubkey"], let key = PublicKey(base64: text), !key.isZero else {
                    throw .invalid(field: "pubkey", problem: "it is no key of 32 bytes in base64")
                }
                let grant = try await service.addKey(
                    token: request.query["pt"] ?? "", publicKey: key, from: request.address)
                guard let address = grant.addresses.first(where: { !$0.isIPv6 }), let server = grant.servers.first
                else { throw .unavailable("addKey needs IPv4 addresses in the tunnel") }
                return APIReply(
                    200,
                    .members([
                        "status": .string("OK"), "server_key": .string(server.publicKey.base64),
                        "server_port": .count(server.endpoints.first?.port ?? 0),
                        "server_ip": .string("\(self.server.address)"),
                        "server_vip": .string("\(self.server.innerAddress)"), "peer_ip": .string("\(address)/32"),
                        "peer_pubkey": .string(key.base64), "dns_servers": .texts(grant.dns.filter { !$0.isIPv6 }),
                    ]))
            }
        ]
    }
}
