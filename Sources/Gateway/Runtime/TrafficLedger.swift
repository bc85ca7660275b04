// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import NetworkAddresses
import WireGuardCore

/// The bytes that devices have sent and received since the last write to the store.
struct TrafficLedger: Sendable {
    /// A source of counters: a WireGuard key or a session of the login tunnel.
    enum Source: Hashable, Sendable {
        case key(PublicKey)
        case session(ClientID)
    }

    /// The counters of a session, or of a key, whose counters start at zero each time that the key becomes a peer.
    struct Count: Equatable {
        var traffic = Device.Traffic()
        var lastHandshake: WallTime?
        var endpoint: Endpoint?
    }

    private var seen: [Source: Count] = [:]
    private var waiting: [DeviceID: DeviceActivity] = [:]

    /// Adds the differences between a source's current and last counters to the activity of a device.
    /// - Parameter isThere: Whether the device is online even if it sends no data.
    mutating func record(
        _ count: Count, of source: Source, _ device: DeviceID, at now: Date, isThere: Bool = false
    ) {
        let before = seen[source] ?? Count()
        seen[source] = count
        guard isThere || count.traffic != before.traffic || count.lastHandshake != before.lastHandshake else { return }
        var activity = waiting[device] ?? DeviceActivity(deviceID: device, traffic: Device.Traffic())
        activity.traffic.received &+= count.traffic.received &- before.traffic.received
        activity.traffic.sent &+= count.traffic.sent &- before.traffic.sent
        if isThere || count.traffic.received > before.traffic.received {
            // The device was active at some moment before this check.
            activity.lastSeenAt = now
            if let endpoint = count.endpoint { activity.endpoint = endpoint }
        }
        waiting[device] = activity
    }

    /// Whether a source has sent data from another endpoint than the one that was last recorded.
    func hasMoved(_ count: Count, _ source: Source) -> Bool {
        let before = seen[source] ?? Count()
        return count.endpoint != before.endpoint && count.traffic.received > before.traffic.received
    }

    /// Forgets the counters of a key that is no longer a peer, or of a session that has ended.
    mutating func forget(_ source: Source) { seen[source] = nil }

    /// Returns the activity to store, and clears it.
    mutating func drain() -> [DeviceActivity] {
        defer { waiting = [:] }
        return Array(waiting.values)
    }

    /// Puts back activity that could not be stored.
    mutating func requeue(_ activities: [DeviceActivity]) {
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
    init(_ moved: SessionTraffic, _ endpoint: Endpoint?) {
        self.init(
            traffic: Device.Traffic(
                received: UInt64(clamping: moved.receivedBytes), sent: UInt64(clamping: moved.sentBytes)),
            endpoint: endpoint)
    }

    init(_ peer: PeerSnapshot) {
        self.init(
            traffic: Device.Traffic(received: peer.receivedBytes, sent: peer.sentBytes),
            lastHandshake: peer.lastHandshake, endpoint: peer.endpoint)
    }
}
