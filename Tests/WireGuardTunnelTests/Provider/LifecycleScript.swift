// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

@testable import WireGuardTunnel

/// A lifecycle and its driver without a device: each event is handed in with the observation that a test has set.
struct LifecycleScript {
    typealias Action = WireGuardLifecycle.Action
    typealias Event = WireGuardLifecycle.Event

    var lifecycle: WireGuardLifecycle
    var now: Duration = .zero
    var receivedBytes: UInt64 = 0
    var handshakeAt: Duration?
    var silentPeers: [PublicKey] = []
    var hasTraffic = true
    var isOwed = true
    var mayRest = true
    var asleep: Duration = .zero

    init(_ options: ConnectivityOptions = ConnectivityOptions(), hasEndpoints: Bool = true) {
        lifecycle = WireGuardLifecycle(options, hasEndpoints: hasEndpoints)
    }

    private var observation: WireGuardLifecycle.Observation {
        WireGuardLifecycle.Observation(
            all: .init(
                now: now, receivedBytes: receivedBytes, handshakeAge: handshakeAt.map { now - $0 }, isOwed: isOwed),
            silentPeers: silentPeers, hasTraffic: hasTraffic, mayRest: mayRest, asleep: asleep)
    }

    /// Hands in an event, and after each `restart` the event that responds to it.
    /// - Returns: the actions, in the order in which a provider performs them.
    mutating func hand(_ event: Event) -> [Action] {
        var performed: [Action] = []
        for action in lifecycle.handle(event, observation) {
            performed.append(action)
            if action == .restart { performed += hand(.restarted) }
        }
        return performed
    }
}
