// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
package import Provisioning
import Synchronization
import TunnelServer
import WireGuardCore

// Administrators' operations on devices.

extension GatewayService {
    package func devices(
        of user: UserID? = nil, _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<Device> {
        try caller.check(.read)
        var found = try await stored("device", try await store.devices(of: user, page))
        found.items = found.items.map(inEffect)
        return found
    }

    package func device(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> Device {
        try caller.check(.read)
        return inEffect(try await find(id).device)
    }

    private func find(_ id: DeviceID) async throws(GatewayError) -> DeviceOfUser {
        let found = try await stored("device", try await store.device(id))
        guard let found else { throw .notFound("device") }
        return found
    }

    /// Refuses a device of a login. Rules and subnets need a permanent device, because the user's next login may get
    /// another device.
    func checkLasts(_ id: DeviceID) async throws(GatewayError) {
        guard try await find(id).device.kind != .login else {
            throw .invalid(
                field: "device", problem: "must not be a login's device, which is temporary: set the rules of its user")
        }
    }

    /// Checks the subnets of a device. A device keeps a subnet that it has already.
    private func check(subnets: [IPPrefix], of device: DeviceID? = nil) async throws(GatewayError) {
        try InputValidation.subnets(subnets)
        guard !subnets.isEmpty else { return }
        let present = if let device { try await find(device).device.subnets } else { [IPPrefix]() }
        let new = subnets.filter { !present.contains($0) }
        try InputValidation.subnets(new, outside: settings)
        guard !new.isEmpty, let network = network.withLock({ $0 }) else { return }
        do throws(TunnelServerError) { try await network.check(subnets: new) } catch {
            guard case .subnet(let subnet, let reason) = error else { throw .unavailable("\(error)") }
            throw .invalid(field: "subnets", problem: "\(subnet) cannot be behind a device: \(reason)")
        }
    }

    /// Makes a device for a stock client, whose configuration file is written from the returned grant.
    package func addDevice(
        _ draft: DeviceDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Created<EnrolmentGrant> {
        try caller.check(.manage)
        try checkWireGuard()
        let now = now
        try check(draft, .create)
        var random = random
        let id = DeviceID(using: &random)
        // The user is a placeholder until the draft, which must contain the user, is applied.
        var device = Device(id: id, userID: id, kind: .exported, name: "", publicKey: nil, keyAt: now, createdAt: now)
        let text = draft.canonicalText(standard: device)
        draft.apply(to: &device)
        try InputValidation.end(device.expiresAt, after: now)
        try InputValidation.addresses(device.addresses)
        try await check(subnets: device.subnets)
        guard let key = device.publicKey else { throw .invalid(field: "publicKey", problem: "must be present") }
        try checkKey(key, "publicKey")
        device.expiresAt = device.expiresAt.map { Date(milliseconds: $0.milliseconds) }
        device.expiryLimit = device.expiresAt
        let added = device
        let limits = limits(at: now)
        let creation = try creation(creationKey, "device \(text)", caller)
        let audit = record(
            .deviceAdded, "device:\(device.id)", caller,
            ["user": device.userID.description, "name": device.name, "key": key.base64])
        let made = try await changed("user", try await store.add(added, limits, creation, audit))
        return Created(item: try grant(made.item), isRepetition: made.isRepetition)
    }

    /// The grant of a device that was made for a stock client, including its pre-shared key.
    package func exportedGrant(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        try caller.check(.manage)
        let found = try await find(id)
        guard found.device.kind == .exported else {
            throw .invalid(
                field: "device",
                problem: "must be a device of a stock client: other devices have their own configuration")
        }
        return try grant(found)
    }

    package func updateDevice(
        _ id: DeviceID, _ update: DeviceUpdate, _ caller: Caller
    ) async throws(GatewayError) -> Device {
        try caller.check(.manage)
        let now = now
        var update = update
        try check(update, .patch)
        if let end = update.expiresAt {
            try InputValidation.end(end, after: now)
            update.expiresAt = .some(end.map { Date(milliseconds: $0.milliseconds) })
        }
        if let subnets = update.subnets {
            if !subnets.isEmpty { try await checkLasts(id) }
            try await check(subnets: subnets, of: id)
        }
        let audit = record(.deviceChanged, "device:\(id)", caller, update.details)
        let limits = limits(at: now)
        let checked = update
        @Sendable func save() async throws(GatewayError) -> Device {
            try await changed("device", try await store.change(device: id, .update(checked, limits), audit)).device
        }
        guard let isEnabled = update.isEnabled else { return inEffect(try await save()) }
        guard !isEnabled else { return inEffect(try await permitAccess(.disabledDevice(id), save)) }
        var disabling = DeviceUpdate()
        disabling.isEnabled = false
        let short = record(.deviceChanged, "device:\(id)", caller, disabling.details)
        if let changed = try await endAccess(.disabledDevice(id), short, save) { return inEffect(changed) }
        guard update == disabling else { throw .onlyDisabled }
        return try await device(id, caller)
    }

    /// Removes a device: its key and credential are not valid from then on.
    /// - Returns: Whether the removal is saved. It is in effect in any case.
    @discardableResult
    package func removeDevice(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> Bool {
        try caller.check(.manage)
        return try await endAccess(.removedDevice(id, of: nil), record(.deviceRemoved, "device:\(id)", caller))
    }
}
