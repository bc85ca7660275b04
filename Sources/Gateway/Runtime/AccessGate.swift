// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// Decides from memory which devices of the store are admitted: none that has expired, and none that is denied. A value without effects.
struct AccessGate: Sendable {
    private var plans: [DeviceID: PeerPlan] = [:]
    private var denied: Set<DeviceID> = []
    private var denials = AccessDenials()

    /// Whether a device has expired since the last update, or is valid again since the clock was set back.
    func isDue(at now: Date) -> Bool {
        plans.values.contains { isDenied($0, at: now) != denied.contains($0.deviceID) }
    }

    /// Takes the changes of the store.
    /// - Parameters:
    ///   - changes: `nil` if the store cannot be read.
    ///   - new: The denials of before the store was read. If it cannot be read, they are added to the former ones.
    /// - Returns: The changes for the peers: denied devices have neither a key nor a password.
    mutating func update(_ changes: PeerChanges?, denials new: AccessDenials, at now: Date) -> PeerChanges {
        var touched: Set<DeviceID> = []
        if let changes {
            denials = new
            if changes.isComplete { plans = [:] }
            for id in changes.removed { plans[id] = nil }
            for plan in changes.peers { plans[plan.deviceID] = plan }
            touched = Set(changes.peers.map(\.deviceID))
        } else {
            denials.formUnion(new)
        }
        let before = denied
        denied = Set(plans.values.filter { isDenied($0, at: now) }.map(\.deviceID))
        touched.formUnion(before.symmetricDifference(denied))
        return PeerChanges(
            sequence: changes?.sequence ?? 0, isComplete: changes?.isComplete ?? false,
            peers: touched.compactMap { plans[$0].map(effective) }, removed: changes?.removed ?? [],
            serverKeysChanged: changes?.serverKeysChanged ?? false)
    }

    private func isDenied(_ plan: PeerPlan, at now: Date) -> Bool {
        if let end = plan.expiresAt, end <= now { return true }
        if denials.devices.contains(plan.deviceID) || plan.userID.map(denials.users.contains) == true { return true }
        return plan.password != nil && plan.userID.map(denials.passwords.contains) == true
    }

    private func effective(_ plan: PeerPlan) -> PeerPlan {
        guard denied.contains(plan.deviceID) else { return plan }
        var plan = plan
        (plan.publicKey, plan.presharedKey, plan.password) = (nil, nil, nil)
        return plan
    }
}
