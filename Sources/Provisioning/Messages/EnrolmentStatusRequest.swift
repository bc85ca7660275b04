// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Requests the grant from the provider of an enrolled tunnel.
public struct EnrolmentStatusRequest: TunnelMessage {
    /// The present grant.
    public struct Reply: Codable, Hashable, Sendable {
        /// The device, as the gateway knows it.
        public var deviceID: RandomID
        /// The device's display name.
        public var deviceName: String
        /// The user of the device.
        public var user: String
        /// Its key.
        public var publicKey: String
        /// Its addresses in the tunnel.
        public var addresses: [IPAddress]
        /// The networks that are routed into the tunnel.
        public var routes: [IPPrefix]
        /// Name servers inside the tunnel.
        public var dns: [IPAddress]
        /// Names that are tried behind a short one.
        public var searchDomains: [String]
        /// The most bytes of one IP packet in the tunnel.
        public var mtu: Int
        /// The server that the tunnel leads to.
        public var serverKey: String
        /// The server's endpoint.
        public var endpoint: String
        /// Seconds between keepalives.
        public var keepaliveSeconds: UInt16
        /// How long the device may be used from now on, unless it renews; nil for ever.
        public var expiresInSeconds: Double?
        /// The age of the grant.
        public var givenSecondsAgo: Double
    }

    /// The name of the message.
    public static let name = "culvert.enrolment.status"

    /// A request.
    public init() {}
}
