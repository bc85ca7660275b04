// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// A gateway with three peers: two with a session, which lasts over all runs since handshakes are slow, and one that
/// is new in each run.
final class Network {
    // libFuzzer calls from one thread.
    nonisolated(unsafe) static let shared = Network()

    let clock = RunClock()
    let gateway: Host
    private(set) var peers: [Host]

    private init() {
        let clock = clock
        // Time stands still over all runs, so the gateway must never find that it is under load.
        var limits = EngineLimits()
        limits.handshakeBurst = 1 << 32
        gateway = Host(number: 1, clock: clock, limits: limits)
        peers = (2...4).map { Host(number: $0, clock: clock) }
        for peer in peers.prefix(2) {
            meet(peer)
            _ = peer.seal([TestPacket.v4(from: 1, to: 2, count: 20, fill: 0)], mtu: 1420)
            _ = exchange(gateway, peer)
        }
    }

    private func meet(_ peer: Host) {
        gateway.add(peer, [])
        peer.add(gateway, TestPacket.everything)
    }

    /// Resets everything except the two sessions, whose counters continue.
    func reset() {
        for peer in peers { gateway.engine.removeAllAllowedIPs(of: peer.publicKey) }
        gateway.engine.removePeer(peers[2].publicKey)
        peers[2] = Host(number: 4, clock: clock)
        meet(peers[2])
    }
}
