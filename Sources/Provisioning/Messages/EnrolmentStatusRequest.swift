// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Requests the grant from the provider of an enrolled tunnel.
public struct EnrolmentStatusRequest: TunnelMessage {
    /// The present grant.
    public struct Reply: Codable, Hashable, Sendable {
        /// The device's ID at the gateway.
        public var deviceID: RandomID
        /// The device's display name.
        public var deviceName: String
        /// The user of the device.
        public var user: String
        /// The device's key.
        public var publicKey: String
        /// The device's addresses in the tunnel.
        public var addresses: [IPAddress]
        /// The networks that are routed into the tunnel.
        public var routes: [IPPrefix]
        /// Name servers inside the tunnel.
        public var dns: [IPAddress]
        /// The search domains for short names.
        public var searchDomains: [String]
        /// The largest size of an IP packet in the tunnel, in bytes.
        public var mtu: Int
        /// The key of the tunnel's server.
        public var serverKey: String
        /// The server's endpoint.
        public var endpoint: String
        /// Seconds between keepalives.
        public var keepaliveSeconds: UInt16
        /// The time until the device expires unless it renews; `nil` for no expiry.
        public var expiresInSeconds: Double?
        /// The age of the grant.
        public var givenSecondsAgo: Double
    }

    /// The name of the message.
    public static let name = "culvert.enrolment.status"

    /// Makes a request.
    public init() {}
}
