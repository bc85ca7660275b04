// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import Provisioning
import Synchronization
import WireGuardCore

// The operations by which the runtime makes WireGuard, firewall and routes match the store.

extension GatewayService {
    /// The time for which a creation is remembered, in seconds.
    private static let creationLifetime = 86_400

    /// Returns the peers that have changed.
    /// - Parameter sequence: The last change that the caller knows. If it is `nil` or too old, the feed has all peers.
    package func peers(after sequence: Int64?, _ caller: Caller) async throws(GatewayError) -> Feed<Peer> {
        try caller.check(.run)
        return try await stored("peer", try await store.peers(after: sequence)).map(peer)
    }

    private func peer(_ record: PeerRecord) -> Peer {
        let (device, user) = (record.device, record.user)
        // Ignore expiries that were not recorded yet: the runtime enforces them by `expiresAt`.
        let isActive = device.isActive(at: .distantPast) && user.isActive(at: .distantPast)
        let key = isActive ? device.publicKey : nil
        var former: FormerEndpoint?
        // A device that was last seen before it got its present key was authenticated by another key.
        if key != nil, let endpoint = device.lastEndpoint, let seenAt = device.lastSeenAt,
            seenAt >= device.keyAt ?? .distantPast
        {
            former = FormerEndpoint(endpoint, seenAt: seenAt)
        }
        return Peer(
            deviceID: device.id, userID: user.id,
            expiresAt: [device.expiresAt, user.expiresAt].compactMap { $0 }.min(), publicKey: key,
            presharedKey: key == nil ? nil : presharedKey(of: device),
            password: isActive && device.kind == .login ? user.password : nil,
            sources: device.addresses.map { IPPrefix(host: $0) } + device.subnets, rules: record.rules,
            hasBeenSeen: device.lastSeenAt != nil, formerEndpoint: former)
    }

    /// Adds the traffic counted since the last call.
    package func record(_ activity: [DeviceActivity], _ caller: Caller) async throws(GatewayError) {
        try caller.check(.run)
        guard !activity.isEmpty else { return }
        try await written("device", try await store.record(activity))
    }

    /// Expires devices, users and idle keys, switches server keys, and deletes old audit entries. Writes the ends of
    /// access that the store has refused, and misuses that were counted in memory. Call it every few seconds.
    ///
    /// While the time is not certain, it deletes and switches nothing.
    package func sweep(busy: [DeviceID] = [], _ caller: Caller) async throws(GatewayError) {
        try caller.check(.run)
        let watch = observeClock()
        await saveEnds()
        await recordMisuses(olderThan: .seconds(60))
        var failure: GatewayError?
        do throws(GatewayError) { try await sweepStore(busy, watch) } catch { failure = error }
        try await switchServerKey(watch)
        if let failure { throw failure }
    }

    private func sweepStore(_ busy: [DeviceID], _ watch: ClockWatch) async throws(GatewayError) {
        let now = now
        func before(_ seconds: some BinaryInteger) -> Date {
            watch.isCertain ? now.addingTimeInterval(-Double(seconds)) : .distantPast
        }
        let auditLifetime = settings.auditLifetimeSeconds
        var sweep = Sweep(
            now: now, idleKeysBefore: before(settings.addKey.idleKeySeconds),
            idleLeasesBefore: before(settings.loginTunnel.leaseSeconds), busy: busy,
            auditBefore: auditLifetime > 0 ? before(auditLifetime) : nil,
            creationsBefore: before(Self.creationLifetime))
        sweep.isTimeCertain = watch.isCertain
        sweep.correctsTimes = watch.isCertain && state.withLock { !$0.hasCorrectedTimes }
        sweep.isProbe = ends.withLock { $0.refusal != nil }
        let checked = sweep
        let outcome = try await written("sweep", try await store.sweep(checked))
        if sweep.isProbe { ends.withLock { $0.setRefusal(nil, at: now) } }
        state.withLock { $0.hasCorrectedTimes = watch.isCertain }
        guard !outcome.isEmpty else { return }
        logger.info(
            """
            expired: \(outcome.devices.count) devices, \(outcome.users.count) users, \(outcome.keys.count) idle keys, \
            \(outcome.leases.count) devices of logins; readmitted because the clock was wrong: \(outcome.readmitted)
            """)
        signalChange()
    }
}
