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
        startFlush(of: .moved)
    }

    func startFlush(of selection: FlushSelection) {
        guard flushing == nil, !isStopped else { return }
        flushing = Task {
            await flush(selection)
            flushing = nil
        }
    }

    /// Stores the traffic that was counted since the last write.
    func flush(_ selection: FlushSelection) async {
        let (devices, now) = (peers.devices, clock.now())
        // Read it before the peers: a change in between is stored by the next write.
        storedEndpointChanges = device?.engineStatistics.endpointChanges
        for peer in device?.peers ?? [] {
            guard let id = devices[peer.publicKey] else { continue }
            let (count, source) = (TrafficLedger.Count(peer), TrafficLedger.Source.key(peer.publicKey))
            guard selection == .all || traffic.hasMoved(count, source) else { continue }
            traffic.record(count, of: source, id, at: now)
        }
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
