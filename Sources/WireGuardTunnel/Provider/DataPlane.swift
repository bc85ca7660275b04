// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import WireGuardCore

/// The operations of a running WireGuard device that the provider uses.
protocol DataPlane: AnyObject, Sendable {
    /// Returns the current state of each peer.
    func peers() -> [DataPlanePeer]
    /// Applies the whole update, or none of it.
    func apply(_ update: UAPIDeviceUpdate) throws(TunnelError)
    /// Opens new sockets and keeps the sessions.
    func rebind() throws(TunnelError)
    /// Begins a handshake with a peer that has an endpoint.
    func requestHandshake(with key: PublicKey)
    /// Sends a packet of the provider's own; false when no peer has the destination.
    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool
    /// Sets who sees ICMP and DNS packets out of the tunnel before they are delivered; true takes one out.
    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?)
    /// Whether an IP packet has come out of the tunnel since the start, or since ``forgetPackets()``. Handshakes and
    /// keepalives contain none.
    var hasDelivered: Bool { get }
    /// Makes ``hasDelivered`` false until the next packet.
    func forgetPackets()
    /// Packets that were dropped, by cause; those with a count.
    func drops() -> [String: UInt64]
    /// The port that is bound.
    var listenPort: UInt16? { get }
    /// The key that peers know this end by; nil while there is no private one.
    var publicKey: PublicKey? { get }
    /// Ends everything; returns when that is done.
    func close() async
}

/// A peer of a running WireGuard.
struct DataPlanePeer: Sendable {
    var publicKey: PublicKey
    var endpoint: Endpoint?
    /// How long ago the last handshake ended; nil when there was none.
    var handshakeAge: Duration?
    var receivedBytes: UInt64 = 0
    var sentBytes: UInt64 = 0
    /// Seconds between keepalives; zero is off.
    var persistentKeepalive: UInt16 = 0
}
