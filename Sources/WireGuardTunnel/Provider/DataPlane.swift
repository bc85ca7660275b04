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
    /// Starts a handshake with a peer that has an endpoint.
    func requestHandshake(with key: PublicKey)
    /// Sends a packet of the provider; returns false if no peer has the destination.
    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool
    /// Sets a filter for ICMP and DNS packets from the tunnel, called before delivery; if it returns true, the packet is not
    /// delivered.
    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?)
    /// Has `handler` called once, on any thread: after the next packet through the tunnel in either direction, or after a
    /// peer's endpoint was changed by roaming or by `wg`. `nil` ends the wait.
    func onNextPacket(_ handler: (@Sendable () -> Void)?)
    /// Whether an IP packet has arrived through the tunnel since the start, or since ``forgetPackets()``. Handshakes and
    /// keepalives contain none.
    var hasDelivered: Bool { get }
    /// Makes ``hasDelivered`` false until the next packet.
    func forgetPackets()
    /// Returns the dropped packets, by cause, without causes that have a count of zero.
    func drops() -> [String: UInt64]
    /// The UDP port in use.
    var listenPort: UInt16? { get }
    /// The public key of this end; `nil` while there is no private key.
    var publicKey: PublicKey? { get }
    /// Closes the device; returns when it has closed.
    func close() async
}

/// A peer of a running WireGuard device.
struct DataPlanePeer: Sendable {
    var publicKey: PublicKey
    var endpoint: Endpoint?
    /// The time since the last handshake completed; `nil` if there was none.
    var handshakeAge: Duration?
    var receivedBytes: UInt64 = 0
    var sentBytes: UInt64 = 0
    /// The seconds between keepalives; 0 is off.
    var persistentKeepalive: UInt16 = 0
}
