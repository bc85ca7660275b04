// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// Asks the provider how the tunnel does.
public struct StatusRequest: TunnelMessage {
    /// The status of the tunnel.
    public struct Reply: Codable, Hashable, Sendable {
        /// The state of the tunnel.
        public var state: WireGuardState
        /// The key that peers know this end by; nil while there is no private key.
        public var publicKey: String?
        /// The port that is bound; nil while none is.
        public var listenPort: UInt16?
        /// The peers.
        public var peers: [PeerStatus]
        /// Packets that were dropped, by cause.
        public var drops: [String: UInt64]
        /// Pings that were sent through the tunnel.
        public var pingsSent: Int
        /// Valid replies to them.
        public var pingReplies: Int

        /// The bytes received from all peers.
        public var receivedBytes: UInt64 { status.receivedBytes }
        /// The bytes sent to all peers.
        public var sentBytes: UInt64 { status.sentBytes }

        /// The part that tunnels of all kinds have.
        public var status: ProviderStatus {
            var status = ProviderStatus(
                activity: state.rawValue, isTrying: [.connecting, .healing].contains(state), peers: peers, drops: drops)
            status.listenPort = listenPort
            return status
        }
    }

    /// The name of the message.
    public static let name = "culvert.wireguard.status"

    /// A request.
    public init() {}
}

/// The state of a WireGuard tunnel.
public enum WireGuardState: String, Codable, Hashable, Sendable, CaseIterable {
    /// It waits for its first handshake.
    case connecting
    /// It is up.
    case connected
    /// It is up, and being probed: nothing was received for some time.
    case probing
    /// No data arrives through the tunnel, and it is being healed.
    case healing
    /// There is no network, or the device sleeps.
    case paused
    /// Its settings are being changed.
    case reconfiguring
    /// The tunnel listens for peers, and no peer has connected yet.
    case listening
    /// It has ended.
    case stopped
}

/// Gives the provider another configuration while it runs. Peers that are in both keep their sessions.
public struct ReconfigureRequest: TunnelMessage {
    /// Done.
    public struct Reply: Codable, Hashable, Sendable {}

    /// The name of the message.
    public static let name = "culvert.wireguard.reconfigure"

    /// The new configuration.
    public var configuration: WireGuardTunnelConfiguration

    /// A request.
    public init(configuration: WireGuardTunnelConfiguration) { self.configuration = configuration }
}
