// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelServer
import WireGuardCore
import WireGuardDevice

// The peers of WireGuard.

extension GatewayRuntime {
    /// Applies the gateway's key, and the desired peers. Without WireGuard, no peer is desired.
    func updateEngine() throws(GatewayError) {
        guard let device else {
            isKeyPending = false
            return
        }
        do throws(WireGuardDeviceError) {
            if isKeyPending { try device.setPrivateKey(service.serverKeys.current) }
            isKeyPending = false
            let update = peers.engine.begin()
            let refused = update.isEmpty ? [:] : try apply(update, to: device)
            peers.engine.finish(update, refused: refused)
        } catch {
            errors.engine = "\(error)"
            throw .unavailable("\(error)")
        }
        errors.engine = nil
        peers.recordLeft()
        let former = peers.takeAdmitted()
        if isRunning, !former.isEmpty { readmitted.yield(resumption(of: former)) }
    }

    /// The largest number of peers in one update. It limits the time for which an update delays packets. After a round with
    /// more changes, the heap is trimmed.
    static let updateSize = 128

    /// Counts the traffic of the keys to remove, removes them, and adds the others.
    /// - Returns: The peers that WireGuard has no memory for, each with the reason.
    private func apply(
        _ update: Reconciler<PublicKey, PeerReconciler.EnginePeer>.Update, to device: WireGuardDevice
    ) throws(WireGuardDeviceError) -> [PublicKey: String] {
        var removed = update.changes.keys.filter { update.changes[$0] == .some(nil) }
        if update.isComplete { removed += device.peers.map(\.publicKey).filter { update.changes[$0] == nil } }
        for key in removed {
            if let id = peers.leaving[key], let peer = device.peer(key) {
                traffic.record(TrafficLedger.Count(peer), of: .key(key), id, at: clock.now())
            }
        }
        if !removed.isEmpty { try device.apply(UAPIDeviceUpdate(removing: removed)) }
        for key in removed { traffic.forget(.key(key)) }
        var refused: [PublicKey: String] = [:]
        var part: [UAPIPeerUpdate] = []
        for (key, peer) in update.changes {
            guard let peer else { continue }
            if device.peer(key) == nil { peers.recordAdmitted(key) }
            part.append(UAPIPeerUpdate(key, peer))
            guard part.count == Self.updateSize else { continue }
            try add(part, to: device, &refused)
            part.removeAll(keepingCapacity: true)
        }
        if !part.isEmpty { try add(part, to: device, &refused) }
        return refused
    }

    /// Adds peers, or changes them.
    /// - Parameter refused: Receives the peers that WireGuard has no memory for, each with the reason.
    private func add(
        _ part: [UAPIPeerUpdate], to device: WireGuardDevice, _ refused: inout [PublicKey: String]
    ) throws(WireGuardDeviceError) {
        do throws(WireGuardDeviceError) {
            try device.apply(UAPIDeviceUpdate(part))
        } catch {
            guard case .beyondBudget = error.code else { throw error }
            for peer in part { refused[peer.publicKey] = try problem(of: peer, in: device) }
        }
    }

    /// Adds a peer, or removes it if WireGuard has no memory for it.
    /// - Returns: The reason if the peer was removed; otherwise `nil`.
    private func problem(of peer: UAPIPeerUpdate, in device: WireGuardDevice) throws(WireGuardDeviceError) -> String? {
        do throws(WireGuardDeviceError) {
            try device.apply(UAPIDeviceUpdate([peer]))
            return nil
        } catch {
            guard case .beyondBudget = error.code else { throw error }
            try device.apply(UAPIDeviceUpdate(removing: [peer.publicKey]))
            return "\(error)"
        }
    }
}
