// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import Provisioning
package import WireGuardCore

/// A change of a device.
package enum DeviceChange: Sendable {
    /// The changes of an administrator.
    case update(DeviceUpdate, DeviceLimits)
    /// Extends the expiry, but not beyond the one that an administrator has set.
    case renewal(until: Date)
    /// Replaces the old key, if the device still has it.
    /// - Parameter by: The hash of the request.
    case rotation(from: PublicKey, to: PublicKey, by: SecretHash)
    /// Sets the key of a slot, and adds addresses to a slot without addresses.
    case key(PublicKey, DeviceLimits)

    /// - Parameter time: The time of the change.
    /// - Throws: `.notFound` if the device no longer has the old key, or is not a slot.
    func apply(to device: inout Device, at time: Date) throws(StoreError) {
        switch self {
        case .update(let update, _):
            update.apply(to: &device)
            if let expiresAt = update.expiresAt { device.expiryLimit = expiresAt }
        case .renewal(let end):
            device.expiresAt = min(end, device.expiryLimit ?? end)
            device.hasExpired = false
        case .rotation(let old, let new, let request):
            guard device.publicKey == old else { throw .notFound }
            (device.publicKey, device.keyAt, device.rotationHash) = (new, time, request)
        case .key(let key, _):
            guard device.kind == .addKey else { throw .notFound }
            (device.publicKey, device.keyAt) = (key, time)
        }
    }
}
