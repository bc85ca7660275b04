// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import WireGuardCore

@testable import WireGuardTunnel

// The invariants that are checked after each event.
extension PhoneDay {
    /// The longest time from when all parts work to `connected`.
    static func bound(_ configuration: WireGuardTunnelConfiguration) -> Duration {
        configuration.connectivity.timeToHeal + .seconds(configuration.resolutionTimeout) + .seconds(30)
    }

    private var isGood: Bool {
        guard isAwake, wantsTunnel, let attached = world.attached, world.isServerUp, resolver.mood == .good,
            world.publishedNumber == world.serverNumber,
            configuration.peers[0].endpoint?.host.hasPrefix("vpn") == true || world.serverNumber == 1
        else { return false }
        let network = world.networks[attached]
        // The path reported to the provider is the current one.
        return !network.isCaptive && !network.isCut && network.conditions.loss <= 0.03
            && network.conditions.delay.upperBound <= .milliseconds(400)
            && pendingAnnouncements == 0 && pendingReconfigurations == 0
    }

    func check() {
        if let plane = world.plane {
            if plane !== lastPlane { (lastPlane, lastSigns) = (plane, 0) }
            if plane.signsOfLife != lastSigns {
                (lastSigns, lastLife) = (plane.signsOfLife, world.now)
                plane.noteLife()
            }
        }
        let status = host.status.status
        if host.platform.settings != nil, policy == .enforcedRoutes { mustHold = true }
        if status == .disconnected, !isStarting, policy == .routeBased { mustHold = false }
        let silence = world.now - max(lastLife, awakeSince)
        if status != lastStatus { changed(to: status, after: silence) }
        // Without an address to ping, an idle tunnel is not checked.
        let isWatched = configuration.connectivity.pingAddress != nil
        let owedSince = isWatched ? .zero : world.plane?.askedAt ?? world.now
        if status == .connected, isAwake, min(silence, world.now - owedSince) > configuration.connectivity.timeToNotice
        {
            problem("connected although nothing was received for \(silence)")
        }
        if isGood {
            if goodSince == nil { goodSince = world.now }
        } else {
            goodSince = nil
        }
        if let goodSince, status != .connected, world.now - goodSince > Self.bound(configuration) {
            problem("not healed \(world.now - goodSince) after all was good: \(status)")
        }
        for begun in stopsBegun.values where isAwake && world.now - max(begun, awakeSince) > .seconds(25) {
            problem("a stop does not end")
        }
        if let burst = probeBurst, world.now - burst.since > .seconds(20) {
            if !burst.echoed, goodSince.map({ burst.since - $0 > Self.bound(configuration) }) ?? false {
                problem("connected on a good network, and of a burst nothing came back")
            }
            probeBurst = nil
        }
    }

    private func changed(to status: TunnelStatus, after silence: Duration) {
        note { "status \(status)\(host.status.error.map { ": \($0.code)" } ?? "")" }
        if lastStatus == .connected, status == .reasserting || status == .disconnecting, isAwake {
            if world.attached != nil { figures.worstNotice = max(figures.worstNotice, silence) }
            figures.outages += 1
        }
        if let goodSince, world.now - goodSince > Self.bound(configuration), lastStatus == .connected, wantsTunnel {
            problem("a healthy tunnel was called dead")
        }
        if status == .connected, let goodSince { figures.worstHeal = max(figures.worstHeal, world.now - goodSince) }
        if policy != .routeBased, lastStatus == .connected || lastStatus == .reasserting, wantsTunnel,
            status != .connected, status != .reasserting
        {
            problem("the tunnel gave up under \(policy)")
        }
        if status == .disconnected, wantsTunnel, !isStarting { scheduleRetry() }
        lastStatus = status
    }
}
