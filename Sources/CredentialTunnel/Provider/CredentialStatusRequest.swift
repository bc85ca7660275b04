// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// Asks the provider how the tunnel does.
public struct CredentialStatusRequest: TunnelMessage {
    /// The state of the tunnel.
    public struct Reply: Codable, Hashable, Sendable {
        /// The activity of the tunnel.
        public var state: CredentialState
        /// The user's name.
        public var login: String
        /// The server's endpoint, or `nil` if unknown.
        public var server: String?
        /// The server's assignment to this client, or `nil` before the first login.
        public var assignment: Body.Assignment?
        /// The age of the keys in use, in seconds; nil before the first session.
        public var keyAge: Double?
        /// Bytes of IP packets that came out of the tunnel.
        public var receivedBytes: UInt64
        /// Bytes of IP packets that went into it.
        public var sentBytes: UInt64
        /// Packets and datagrams that were dropped, by cause; those with a count.
        public var drops: [String: UInt64]

        /// The part that tunnels of all kinds have.
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

    /// A request.
    public init() {}
}

/// The activity of a login tunnel.
public enum CredentialState: String, Codable, Hashable, Sendable, CaseIterable {
    /// It logs in for the first time.
    case connecting
    /// It is up.
    case connected
    /// It was up, and logs in again, or has not heard the server over another network yet.
    case reconnecting
    /// There is no network.
    case paused
    /// It has ended.
    case stopped
}
