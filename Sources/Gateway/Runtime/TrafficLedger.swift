// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import WireGuardCore

/// What devices have sent and received since the store was told the last time.
struct TrafficLedger: Sendable {
    /// What WireGuard counts of a key, from zero each time that it becomes a peer.
    private struct Seen {
        var traffic = Device.Traffic()
        var lastHandshake: WallTime?
    }

    private var seen: [PublicKey: Seen] = [:]
    private var waiting: [DeviceID: DeviceActivity] = [:]

    /// Takes what WireGuard counts of a peer now.
    mutating func take(_ peer: PeerSnapshot, of device: DeviceID, at now: Date) {
        let before = seen[peer.publicKey] ?? Seen()
        let traffic = Device.Traffic(received: peer.receivedBytes, sent: peer.sentBytes)
        seen[peer.publicKey] = Seen(traffic: traffic, lastHandshake: peer.lastHandshake)
        let isHeard = traffic.received > before.traffic.received
        guard traffic != before.traffic || peer.lastHandshake != before.lastHandshake else { return }
        var activity = waiting[device] ?? DeviceActivity(deviceID: device, traffic: Device.Traffic())
        activity.traffic.received &+= traffic.received &- before.traffic.received
        activity.traffic.sent &+= traffic.sent &- before.traffic.sent
        // What was received since the last look came some time before this one.
        if isHeard { activity.lastSeenAt = now }
        if let endpoint = peer.endpoint, isHeard { activity.endpoint = endpoint }
        waiting[device] = activity
    }

    /// Says that a key is no peer any more.
    mutating func forget(_ key: PublicKey) { seen[key] = nil }

    /// What the store is to be told, once.
    mutating func drain() -> [DeviceActivity] {
        defer { waiting = [:] }
        return Array(waiting.values)
    }

    /// What the store could not be told.
    mutating func putBack(_ activities: [DeviceActivity]) {
        for old in activities {
            guard var new = waiting[old.deviceID] else {
                waiting[old.deviceID] = old
                continue
            }
            new.traffic.received &+= old.traffic.received
            new.traffic.sent &+= old.traffic.sent
            new.lastSeenAt = new.lastSeenAt ?? old.lastSeenAt
            new.endpoint = new.endpoint ?? old.endpoint
            waiting[old.deviceID] = new
        }
    }
}
