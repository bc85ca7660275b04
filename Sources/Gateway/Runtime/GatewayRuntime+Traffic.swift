// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import Logging
import WireGuardCore
import WireGuardDevice

// The writes of counters and endpoints to the store.

extension GatewayRuntime {
    /// The devices whose counters are stored.
    enum FlushSelection {
        case all
        /// The devices with a WireGuard key whose endpoint has changed since it was last stored.
        case moved
    }

    /// Stores the endpoints that have changed since the last write, in one transaction. After a kill, the next start finds
    /// the devices there.
    func storeChangedEndpoints() {
        guard let device, device.engineStatistics.endpointChanges != storedEndpointChanges else { return }
        guard clock.nanoseconds() >= nextEndpointScan else { return }
        startFlush(of: .moved)
    }

    /// Starts a write, unless one is in progress. A write of everything then follows it.
    func startFlush(of selection: FlushSelection) {
        guard !isStopped else { return }
        guard flushing == nil else {
            if selection == .all { isFlushDue = true }
            return
        }
        flushing = Task {
            await flush(selection)
            flushing = nil
            guard isFlushDue else { return }
            isFlushDue = false
            startFlush(of: .all)
        }
    }

    /// The least pause from a scan of all peers to the next scan for changed endpoints, as a multiple of the time that the
    /// scan took.
    private static let scanRest: Int64 = 50

    /// Stores the traffic that was counted since the last write.
    func flush(_ selection: FlushSelection) async {
        let (devices, now) = (peers.devices, clock.now())
        // Read it before the peers: a change in between is stored by the next write.
        storedEndpointChanges = device?.engineStatistics.endpointChanges
        let began = clock.nanoseconds()
        for peer in device?.peers ?? [] {
            guard let id = devices[peer.publicKey] else { continue }
            let (count, source) = (TrafficLedger.Count(peer), TrafficLedger.Source.key(peer.publicKey))
            guard selection == .all || traffic.hasMoved(count, source) else { continue }
            traffic.record(count, of: source, id, at: now)
        }
        let ended = clock.nanoseconds()
        nextEndpointScan = ended + Self.scanRest * (ended - began)
        if selection == .all {
            for session in login?.sessions ?? [] {
                if let device = logins.sessions[session.id]?.device {
                    traffic.record(
                        TrafficLedger.Count(session.moved, session.endpoint), of: .session(session.id), device, at: now,
                        isThere: true)
                }
            }
        }
        let activity = traffic.drain()
        guard !activity.isEmpty else { return }
        do throws(GatewayError) { try await service.record(activity, .gateway) } catch {
            traffic.requeue(activity)
            storedEndpointChanges = nil
            let text = "cannot store traffic counters, will retry: \(Self.reason(error))"
            if failures.allows(text, at: clock.nanoseconds()) { logger.error("\(text)") }
        }
    }
}
