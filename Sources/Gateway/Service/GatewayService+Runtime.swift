// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import Provisioning
import WireGuardCore

// What the runtime needs to keep WireGuard, firewall and routes equal to the store.

extension GatewayService {
    /// How long a creation is known.
    private static let creationLifetime = 86_400.0

    /// All peers, and the change up to which they are up to date.
    package func peers(_ caller: Caller) async throws(GatewayError) -> PeerChanges {
        try caller.check(.run)
        return plans(try await stored("peer") { () throws(StoreError) in try await store.peers(after: nil) })
    }

    /// What has become of peers since a change. Everything (`isComplete`) where so old a change is not known any more.
    package func peerChanges(
        after sequence: Int64, _ caller: Caller
    ) async throws(GatewayError) -> PeerChanges {
        try caller.check(.run)
        return plans(try await stored("peer") { () throws(StoreError) in try await store.peers(after: sequence) })
    }

    private func plans(_ feed: PeerFeed) -> PeerChanges {
        let now = now
        return PeerChanges(
            sequence: feed.sequence, isComplete: feed.isComplete,
            peers: feed.peers.map { record in
                let device = record.device
                let isActive = device.isActive(at: now) && record.user.isActive(at: now)
                let key = isActive ? device.publicKey : nil
                return PeerPlan(
                    deviceID: device.id, publicKey: key, presharedKey: key == nil ? nil : presharedKey(of: device),
                    password: isActive && device.kind == .login ? record.user.password : nil,
                    addresses: device.addresses, subnets: device.subnets, rules: record.rules)
            }, removed: feed.removed, serverKeysChanged: feed.serverKeysChanged)
    }

    package func changes(
        after sequence: Int64, limit: Int = 1000, _ caller: Caller
    ) async throws(GatewayError) -> [Change] {
        try caller.check(.read)
        return try await stored("change") { () throws(StoreError) in
            try await store.changes(after: sequence, limit: min(max(limit, 1), 10_000))
        }
    }

    /// Adds what was counted since the last time.
    package func record(_ activity: [DeviceActivity], _ caller: Caller) async throws(GatewayError) {
        try caller.check(.run)
        guard !activity.isEmpty else { return }
        try await stored("device") { () throws(StoreError) in try await store.record(activity) }
    }

    /// Notes what time has brought: expired devices, users and idle keys, the switch of server keys, old entries of the audit log.
    /// To be called every few seconds.
    package func sweep(busy: [DeviceID] = [], _ caller: Caller) async throws(GatewayError) {
        try caller.check(.run)
        try await switchServerKey()
        let now = now
        let auditLifetime = settings.auditLifetimeSeconds
        let sweep = Sweep(
            now: now, idleKeysBefore: now.addingTimeInterval(-Double(settings.addKey.idleKeySeconds)),
            idleLeasesBefore: now.addingTimeInterval(-Double(settings.loginTunnel.leaseSeconds)), busy: busy,
            auditBefore: auditLifetime > 0 ? now.addingTimeInterval(-Double(auditLifetime)) : nil,
            creationsBefore: now.addingTimeInterval(-Self.creationLifetime))
        let outcome = try await stored("sweep") { () throws(StoreError) in try await store.sweep(sweep) }
        guard !outcome.isEmpty else { return }
        logger.info(
            """
            expired: \(outcome.devices.count) devices, \(outcome.users.count) users, \(outcome.keys.count) idle keys, \
            \(outcome.leases.count) devices of logins
            """)
        signalChange()
    }
}
