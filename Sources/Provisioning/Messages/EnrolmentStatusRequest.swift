// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// Asks the provider of an enrolled tunnel what it was given.
public struct EnrolmentStatusRequest: TunnelMessage {
    /// What it was given.
    public struct Reply: Codable, Hashable, Sendable {
        /// The device, as the gateway knows it.
        public var deviceID: RandomID
        /// What people call it.
        public var deviceName: String
        /// Whose it is.
        public var user: String
        /// Its key.
        public var publicKey: String
        /// Its addresses in the tunnel.
        public var addresses: [IPAddress]
        /// What is routed into the tunnel.
        public var routes: [IPPrefix]
        /// Name servers inside the tunnel.
        public var dns: [IPAddress]
        /// Names that are tried behind a short one.
        public var searchDomains: [String]
        /// The most bytes of one IP packet in the tunnel.
        public var mtu: Int
        /// The server that the tunnel leads to.
        public var serverKey: String
        /// Where that is.
        public var endpoint: String
        /// Seconds between keepalives.
        public var keepaliveSeconds: UInt16
        /// How long the device may be used from now on, unless it renews; nil for ever.
        public var expiresInSeconds: Double?
        /// How long ago the gateway gave all that.
        public var givenSecondsAgo: Double
    }

    /// The name of the message.
    public static let name = "culvert.enrolment.status"

    /// A request.
    public init() {}
}
