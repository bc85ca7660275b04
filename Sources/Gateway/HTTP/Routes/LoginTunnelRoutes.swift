// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
package import NetworkAddresses
import Provisioning
import TunnelSystem
import WireGuardCore

/// The address and the keys that clients of the login tunnel need, in addition to a login and its password.
package struct LoginTunnelPlace: Sendable {
    package var server: EndpointAddress
    package var keys: LoginTunnelKeys

    package init(server: EndpointAddress, keys: LoginTunnelKeys) {
        self.server = server
        self.keys = keys
    }
}

/// The login tunnel.
package enum LoginTunnelRoutes {
    package static let show = Route<Void, LoginTunnelPlace>(
        .get, "/v1/login-tunnel", .manage,
        "Show the server and the keys of the login tunnel, including its pre-shared key",
        reply: .one(
            ReplyShape(
                .object([.init("server", .endpoint), .init("serverKey", .key), .init("presharedKey", .key)])
            ) { place in
                .object(of: [
                    ("server", .string("\(place.server)")),
                    ("serverKey", .string(place.keys.privateKey.publicKey.base64)),
                    ("presharedKey", .string(place.keys.presharedKey.exportedBase64)),
                ])
            }, "The settings that all clients share"), errors: [404])
}

extension AdminRoutes {
    func registerLoginTunnel(in list: inout RouteList) {
        list.register(LoginTunnelRoutes.show) { call in
            try call.caller.check(.manage)
            guard let loginTunnel else { throw GatewayError.noLoginTunnel }
            return loginTunnel
        }
    }
}
