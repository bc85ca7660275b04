// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
package import Provisioning
import TunnelSystem

/// The routes for devices, which Provisioning describes for their clients (``Provisioning/EnrolmentPath``).
package enum EnrolmentRoutes {
    package static let enrol = Route<EnrolmentRequest, Created<EnrolmentGrant>>(
        .post, EnrolmentPath.enrolments, .invitation, "Make a device with an invitation or a token of scope enrol",
        body: .complete(EnrolmentRequest.message),
        reply: .created(
            .grant(""), notes: (new: "The device", repeated: "The device; an earlier identical request made it"),
            parameters: []),
        errors: [409])
    package static let show = Route<Void, EnrolmentGrant>(
        .get, EnrolmentPath.device, .device, "Show the device's grant", reply: .grant("The current grant"))
    package static let renew = Route<Void, EnrolmentGrant>(
        .post, EnrolmentPath.renewal, .device, "Extend the device's expiry", reply: .grant("The current grant"))
    package static let rotationNonce = Route<Void, RotationNonce>(
        .post, EnrolmentPath.rotationNonces, .device, "Make a nonce for the proof of a new key",
        reply: .message(RotationNonce.schema, "The nonce"))
    package static let rotate = Route<RotationRequest, EnrolmentGrant>(
        .post, EnrolmentPath.rotations, .device, "Replace the device's key",
        body: .complete(RotationRequest.message), reply: .grant("The grant with the new key"), errors: [409])
    package static let list = Route<Void, DeviceList>(
        .get, EnrolmentPath.devices, .device, "List the devices of the device's user",
        reply: .message(DeviceList.schema, "The devices"))
    package static let remove = Route<Void, Bool>(
        .delete, EnrolmentPath.devices + "/{id}", .device, "Revoke a device of the same user", reply: .removal,
        errors: [404])
}

extension ReplyFormat where Reply == EnrolmentGrant {
    static func grant(_ note: String) -> ReplyFormat { .message(.named("Grant"), note) }
}

/// The handlers of the device listener.
package struct DeviceRoutes: Sendable {
    private let service: GatewayService
    private let enrolled: @Sendable (Bool) -> Void

    /// - Parameter enrolled: Called after each enrolment with whether it repeats an earlier one.
    package init(_ service: GatewayService, enrolled: @escaping @Sendable (Bool) -> Void = { _ in }) {
        self.service = service
        self.enrolled = enrolled
    }

    package func register(in list: inout RouteList) {
        list.register(EnrolmentRoutes.enrol) { call in
            let created = try await service.enrol(bearer: call.bearer, call.body, from: call.address)
            enrolled(created.isRepetition)
            return created
        }
        list.register(EnrolmentRoutes.show) { try await service.grant($0.caller) }
        list.register(EnrolmentRoutes.renew) { try await service.renew($0.caller) }
        list.register(EnrolmentRoutes.rotationNonce) { try await service.rotationNonce($0.caller) }
        list.register(EnrolmentRoutes.rotate) { try await service.rotate($0.body, $0.caller) }
        list.register(EnrolmentRoutes.list) { try await service.ownDevices($0.caller) }
        list.register(EnrolmentRoutes.remove) { try await service.removeOwnDevice($0.id(), $0.caller) }
        list.register(SystemRoutes.health(at: EnrolmentPath.health)) { _ in }
    }
}
