// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Requests the grant of an enrolled tunnel from its provider.
public struct EnrolmentStatusRequest: TunnelMessage {
    /// The grant, and the connection that uses it.
    public struct Reply: Codable, Hashable, Sendable {
        /// The device's ID at the gateway.
        public var deviceID: RandomID
        /// The display name of the device.
        public var deviceName: String
        /// The login of the device's user.
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
        /// The endpoint of the tunnel's server.
        public var endpoint: String
        /// Seconds between keepalives.
        public var keepaliveSeconds: UInt16
        /// The time until the device expires unless it renews; `nil` for no expiry.
        public var expiresInSeconds: Double?
        /// The time since the gateway gave the grant.
        public var givenSecondsAgo: Double
    }

    /// The name of the message.
    public static let name = "culvert.enrolment.status"

    /// Makes a request.
    public init() {}
}
