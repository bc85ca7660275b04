// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import Provisioning
import TunnelSystem
import WireGuardCore

/// Where clients find the login tunnel's server, and what they need beside a login and its password.
package struct LoginTunnelPlace: Sendable {
    package var host: String
    package var port: UInt16
    package var keys: LoginTunnelKeys

    package init(host: String, port: UInt16, keys: LoginTunnelKeys) {
        self.host = host
        self.port = port
        self.keys = keys
    }

    /// HOST:PORT.
    var server: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

extension AdminRoutes {
    // The service checks the length.
    private static let password = CompleteMessage<String>(
        { $0 },
        TypedField(
            "password", \.self,
            .anyText(.text(length: PasswordHash.fewestCharacters...PasswordHash.mostBytes))))

    /// Passwords of users, and what their clients are set up with.
    func logins(_ place: LoginTunnelPlace?) -> [APIRoute] {
        [
            APIRoute(
                .put, "/v1/users/{id}/password", .manage,
                "Set what a user logs in to the login tunnel with; sessions begun with the old password end",
                body: Self.password.schema(.create),
                replies: [
                    .init(status: 200, schema: .named("User"), note: "As it is now"), .unsavedUpdate("User"),
                ], problems: [404]
            ) { (request) async throws(GatewayError) in
                let id = try request.id("user")
                var password = try request.read { (json) throws(ContractError) in
                    Array(try Self.password.decode(json, .create).utf8)
                }
                defer { wipe(&password) }
                let user = try await service.setPassword(of: id, password, try request.caller)
                return APIReply(user.isSaved ? 200 : 202, user.json)
            },
            APIRoute(
                .delete, "/v1/users/{id}/password", .manage, "Let a user log in to the login tunnel no more",
                replies: [
                    .init(status: 200, schema: .named("User"), note: "As it is now"), .unsavedUpdate("User"),
                ], problems: [404]
            ) { (request) async throws(GatewayError) in
                let user = try await service.setPassword(of: try request.id("user"), nil, try request.caller)
                return APIReply(user.isSaved ? 200 : 202, user.json)
            },
            APIRoute(
                .get, "/v1/login-tunnel", .manage,
                "What clients of the login tunnel need beside a login and its password, its pre-shared key included",
                replies: [
                    .init(
                        status: 200,
                        schema: .object([
                            .init("server", .endpoint), .init("serverKey", .key), .init("presharedKey", .key),
                        ]), note: "The same for all of them")
                ], problems: [404]
            ) { (request) async throws(GatewayError) in
                try request.caller.check(.manage)
                guard let place else { throw .noLoginTunnel }
                return APIReply(
                    200,
                    .members([
                        "server": .string(place.server), "serverKey": .string(place.keys.privateKey.publicKey.base64),
                        "presharedKey": .string(place.keys.presharedKey.exportedBase64),
                    ]))
            },
        ]
    }
}
