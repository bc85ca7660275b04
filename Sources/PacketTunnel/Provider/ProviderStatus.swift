// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The activity and the counters of a running provider, in the same form for all kinds of tunnels.
///
/// The status that the user sees, such as `.connected`, is the host's: ``TunnelStatus``.
public struct ProviderStatus: Hashable, Sendable {
    /// The activity, as a word that the type of tunnel defines, such as "connected" or "probing".
    public var activity: String
    /// Whether the provider has no connection to its server or its peers and tries to establish one.
    public var isTrying: Bool
    /// The user's name at the server; `nil` for tunnels without logins.
    public var login: String?
    /// The bound UDP port; `nil` if none is bound or if the type of tunnel does not report it.
    public var listenPort: UInt16?
    /// The endpoint of the server, or of the peer with the latest handshake; `nil` if it is not known.
    public var endpoint: String?
    /// The age in seconds of the latest handshake, or of the keys in use; `nil` before the first one.
    public var handshakeAge: Double?
    /// The bytes received since the start.
    public var receivedBytes: UInt64
    /// The bytes sent since the start.
    public var sentBytes: UInt64
    /// The numbers of dropped packets and datagrams by cause, without zeros.
    public var drops: [String: UInt64]
    /// The peers; empty for tunnels without peers.
    public var peers: [PeerStatus]

    /// The status of a provider without peers.
    public init(
        activity: String, isTrying: Bool, receivedBytes: UInt64, sentBytes: UInt64, drops: [String: UInt64]
    ) {
        (self.activity, self.isTrying) = (activity, isTrying)
        (self.receivedBytes, self.sentBytes, self.drops) = (receivedBytes, sentBytes, drops)
        peers = []
    }

    /// Creates the status of a provider with peers. The bytes and handshakes are those of the peers.
    public init(activity: String, isTrying: Bool, peers: [PeerStatus], drops: [String: UInt64]) {
        self.init(
            activity: activity, isTrying: isTrying, receivedBytes: peers.reduce(0) { $0 &+ $1.receivedBytes },
            sentBytes: peers.reduce(0) { $0 &+ $1.sentBytes }, drops: drops)
        self.peers = peers
        handshakeAge = peers.compactMap(\.lastHandshakeAge).min()
        endpoint =
            peers.filter { $0.endpoint != nil }
            .min { $0.lastHandshakeAge ?? .infinity < $1.lastHandshakeAge ?? .infinity }?.endpoint
    }
}

/// The state of one peer.
public struct PeerStatus: Codable, Hashable, Sendable {
    /// The key that identifies the peer, in base64.
    public var publicKey: String
    /// The peer's endpoint; `nil` if it is not known.
    public var endpoint: String?
    /// The time since the last handshake in seconds; `nil` if there was none.
    public var lastHandshakeAge: Double?
    /// The bytes received from the peer.
    public var receivedBytes: UInt64
    /// The bytes sent to the peer.
    public var sentBytes: UInt64
    /// Whether the peer has not answered for longer than the connectivity monitor permits.
    public var isSilent: Bool?

    /// The state of a peer.
    public init(
        publicKey: String, endpoint: String? = nil, lastHandshakeAge: Double? = nil, receivedBytes: UInt64 = 0,
        sentBytes: UInt64 = 0, isSilent: Bool? = nil
    ) {
        (self.publicKey, self.endpoint, self.lastHandshakeAge) = (publicKey, endpoint, lastHandshakeAge)
        (self.receivedBytes, self.sentBytes, self.isSilent) = (receivedBytes, sentBytes, isSilent)
    }
}
