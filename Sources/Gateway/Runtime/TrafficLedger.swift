// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import WireGuardCore

/// What devices have sent and received since the store was told the last time.
struct TrafficLedger: Sendable {
    /// What WireGuard counts of a key, from zero each time that it becomes a peer.
    struct Count: Equatable {
        var traffic = Device.Traffic()
        var lastHandshake: WallTime?
        var endpoint: Endpoint?
    }

    private var seen: [PublicKey: Count] = [:]
    private var waiting: [DeviceID: DeviceActivity] = [:]

    /// Takes what WireGuard counts of a peer now.
    mutating func take(_ count: Count, of key: PublicKey, _ device: DeviceID, at now: Date) {
        let before = seen[key] ?? Count()
        seen[key] = count
        guard count.traffic != before.traffic || count.lastHandshake != before.lastHandshake else { return }
        var activity = waiting[device] ?? DeviceActivity(deviceID: device, traffic: Device.Traffic())
        activity.traffic.received &+= count.traffic.received &- before.traffic.received
        activity.traffic.sent &+= count.traffic.sent &- before.traffic.sent
        if count.traffic.received > before.traffic.received {
            // It came some time before this look.
            activity.lastSeenAt = now
            if let endpoint = count.endpoint { activity.endpoint = endpoint }
        }
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

extension TrafficLedger.Count {
    init(_ peer: PeerSnapshot) {
        self.init(
            traffic: Device.Traffic(received: peer.receivedBytes, sent: peer.sentBytes),
            lastHandshake: peer.lastHandshake, endpoint: peer.endpoint)
    }
}
