// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
public import WireGuardTunnel

/// The traffic of a tunnel between two status replies.
public struct Traffic: Equatable, Sendable {
    /// Bytes received, over the tunnel's life.
    public private(set) var received: UInt64 = 0
    /// Bytes sent, over the tunnel's life.
    public private(set) var sent: UInt64 = 0
    /// The recent rate of received bytes, per second.
    public private(set) var receivedRate: Double = 0
    /// The recent rate of sent bytes, per second.
    public private(set) var sentRate: Double = 0
    /// Seconds since the last handshake; `nil` if there was none.
    public private(set) var handshakeAge: Double?
    /// Pings through the tunnel, and replies to them.
    public private(set) var pings = (sent: 0, replies: 0)
    /// The activity of the tunnel.
    public private(set) var state = ""
    private var time: ContinuousClock.Instant?

    /// Nothing yet.
    public init() {}

    /// Takes an answer of the tunnel.
    public mutating func take(_ reply: StatusRequest.Reply, at now: ContinuousClock.Instant) {
        if let time, time < now {
            let seconds = (now - time) / .seconds(1)
            // Counters restart with each start.
            receivedRate = reply.receivedBytes < received ? 0 : Double(reply.receivedBytes - received) / seconds
            sentRate = reply.sentBytes < sent ? 0 : Double(reply.sentBytes - sent) / seconds
        }
        (time, received, sent) = (now, reply.receivedBytes, reply.sentBytes)
        handshakeAge = reply.peers.compactMap(\.lastHandshakeAge).min()
        pings = (reply.pingsSent, reply.pingReplies)
        state = reply.state.rawValue
    }

    /// Whether both say the same.
    public static func == (left: Traffic, right: Traffic) -> Bool {
        left.time == right.time && left.received == right.received && left.sent == right.sent
            && left.receivedRate == right.receivedRate && left.sentRate == right.sentRate
            && left.handshakeAge == right.handshakeAge && left.pings == right.pings && left.state == right.state
    }
}
