// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import NetworkAddresses
import WireGuardCore

/// What devices have sent and received since the store was told the last time.
struct TrafficLedger: Sendable {
    /// What is counted by itself.
    enum Source: Hashable, Sendable {
        case key(PublicKey)
        case session(ClientID)
    }

    /// What is counted of a key, from zero each time that it becomes a peer, or of a session.
    struct Count: Equatable {
        var traffic = Device.Traffic()
        var lastHandshake: WallTime?
        var endpoint: Endpoint?
    }

    private var seen: [Source: Count] = [:]
    private var waiting: [DeviceID: DeviceActivity] = [:]

    /// Takes what is counted of a device now.
    /// - Parameter isThere: whether it is known to be there, whatever it sends.
    mutating func take(
        _ count: Count, of source: Source, _ device: DeviceID, at now: Date, isThere: Bool = false
    ) {
        let before = seen[source] ?? Count()
        seen[source] = count
        guard isThere || count.traffic != before.traffic || count.lastHandshake != before.lastHandshake else { return }
        var activity = waiting[device] ?? DeviceActivity(deviceID: device, traffic: Device.Traffic())
        activity.traffic.received &+= count.traffic.received &- before.traffic.received
        activity.traffic.sent &+= count.traffic.sent &- before.traffic.sent
        if isThere || count.traffic.received > before.traffic.received {
            // It came some time before this look.
            activity.lastSeenAt = now
            if let endpoint = count.endpoint { activity.endpoint = endpoint }
        }
        waiting[device] = activity
    }

    /// Says that a key is no peer any more, or that a session is over.
    mutating func forget(_ source: Source) { seen[source] = nil }

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
