// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Requests the registration from the provider of an `addKey` tunnel.
public struct AddKeyStatusRequest: TunnelMessage {
    /// The present registration. It contains neither the token nor the private key.
    public struct Reply: Codable, Hashable, Sendable {
        /// The name of the server at which the key is registered.
        public var server: String
        /// The key of that server.
        public var serverKey: String
        /// The server's WireGuard endpoint.
        public var endpoint: String
        /// The client's address in the tunnel.
        public var address: InterfaceAddress
        /// The server's name servers inside the tunnel. The configuration may replace them.
        public var nameServers: [IPAddress]
        /// The server's address inside the tunnel (`server_vip`), or `nil` if the server sent none. PIA's servers forward
        /// ports at this address.
        public var innerAddress: IPAddress?
    }

    /// The name of the message.
    public static let name = "culvert.addkey.status"

    /// Makes a request.
    public init() {}
}
