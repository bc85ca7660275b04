// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// Requests the status of the tunnel.
public struct StatusRequest: TunnelMessage {
    /// The status of the tunnel.
    public struct Reply: Codable, Hashable, Sendable {
        /// The state of the tunnel.
        public var state: WireGuardState
        /// The public key of this end; `nil` while there is no private key.
        public var publicKey: String?
        /// The UDP port in use; `nil` if no socket is bound.
        public var listenPort: UInt16?
        /// The peers.
        public var peers: [PeerStatus]
        /// The dropped packets, by cause.
        public var drops: [String: UInt64]
        /// The number of pings sent through the tunnel.
        public var pingsSent: Int
        /// The number of valid replies to the pings.
        public var pingReplies: Int

        /// The bytes received from all peers.
        public var receivedBytes: UInt64 { status.receivedBytes }
        /// The bytes sent to all peers.
        public var sentBytes: UInt64 { status.sentBytes }

        /// The part of the status that all kinds of tunnels share.
        public var status: ProviderStatus {
            var status = ProviderStatus(
                activity: state.rawValue, isTrying: [.connecting, .healing].contains(state), peers: peers, drops: drops)
            status.listenPort = listenPort
            return status
        }
    }

    /// The name of the message.
    public static let name = "culvert.wireguard.status"

    /// Makes a request.
    public init() {}
}

/// The state of a WireGuard tunnel.
public enum WireGuardState: String, Codable, Hashable, Sendable, CaseIterable {
    /// The tunnel waits for its first handshake.
    case connecting
    /// The tunnel is up.
    case connected
    /// The tunnel is up and is being probed, because no data was received for some time.
    case probing
    /// No data arrives through the tunnel, and it is being healed.
    case healing
    /// There is no network, or the machine sleeps.
    case paused
    /// The tunnel's settings are being changed.
    case reconfiguring
    /// The tunnel listens for peers, and no peer has connected yet.
    case listening
    /// The tunnel has ended.
    case stopped
}

/// Changes the configuration of a running tunnel. Peers in both configurations keep their sessions, unless the private
/// key changes.
public struct ReconfigureRequest: TunnelMessage {
    /// An empty reply: the change was applied.
    public struct Reply: Codable, Hashable, Sendable {}

    /// The name of the message.
    public static let name = "culvert.wireguard.reconfigure"

    /// The new configuration.
    public var configuration: WireGuardTunnelConfiguration

    /// Makes a request.
    public init(configuration: WireGuardTunnelConfiguration) { self.configuration = configuration }
}
