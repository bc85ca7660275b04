// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// A request for the status of the tunnel.
public struct CredentialStatusRequest: TunnelMessage {
    /// The status of the tunnel.
    public struct Reply: Codable, Hashable, Sendable {
        /// The state of the tunnel.
        public var state: CredentialState
        /// The user's name.
        public var login: String
        /// The server's address, or `nil` if it is not known.
        public var server: String?
        /// The server's assignment, or `nil` before the first login.
        public var assignment: Body.Assignment?
        /// The age of the keys in use, in seconds, or `nil` before the first session.
        public var keyAge: Double?
        /// The bytes of IP packets received through the tunnel.
        public var receivedBytes: UInt64
        /// The bytes of IP packets sent through the tunnel.
        public var sentBytes: UInt64
        /// The numbers of dropped packets and datagrams, by cause, without zeros.
        public var drops: [String: UInt64]

        /// The status in the form that all kinds of tunnels share.
        public var status: ProviderStatus {
            var status = ProviderStatus(
                activity: state.rawValue, isTrying: [.connecting, .reconnecting].contains(state),
                receivedBytes: receivedBytes, sentBytes: sentBytes, drops: drops)
            (status.login, status.endpoint, status.handshakeAge) = (login, server, keyAge)
            return status
        }
    }

    /// The name of the message.
    public static let name = "culvert.credential.status"

    /// Creates a request.
    public init() {}
}

/// The state of a login tunnel.
public enum CredentialState: String, Codable, Hashable, Sendable, CaseIterable {
    /// The first login is in progress.
    case connecting
    /// The tunnel carries packets.
    case connected
    /// The tunnel was connected before. It logs in again, or waits for the server on another network.
    case reconnecting
    /// No network is available.
    case paused
    /// The tunnel has ended.
    case stopped
}
