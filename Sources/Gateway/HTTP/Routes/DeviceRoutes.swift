// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// What devices ask for: all that the device listener has.
package struct DeviceRoutes: Sendable {
    private let service: GatewayService
    private let enrolled: @Sendable (Bool) -> Void

    /// - Parameter enrolled: hears of each enrolment, and whether it was one that was there already.
    package init(_ service: GatewayService, enrolled: @escaping @Sendable (Bool) -> Void = { _ in }) {
        self.service = service
        self.enrolled = enrolled
    }

    private static let grant = JSONSchema.named("Grant")

    package var all: [APIRoute] {
        [
            APIRoute(
                .post, EnrolmentPath.enrolments, .invitation,
                "Make a device, with an invitation or a token of scope enrol",
                body: EnrolmentRequest.schema,
                replies: [
                    .init(status: 201, schema: Self.grant, note: "The device"),
                    .init(status: 200, schema: Self.grant, note: "The same request was answered before"),
                ], problems: [409]
            ) { (request) async throws(GatewayError) in
                let wanted = try request.read { (json) throws(ContractError) in
                    try EnrolmentRequest(json)
                }
                let created = try await service.enrol(bearer: request.bearer, wanted, from: request.address)
                enrolled(created.isRepetition)
                return APIReply(created.isRepetition ? 200 : 201, created.item)
            },
            APIRoute(
                .get, EnrolmentPath.device, .device, "What the device has been given",
                replies: [.init(status: 200, schema: Self.grant, note: "As it is now")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.grant(try request.caller))
            },
            APIRoute(
                .post, EnrolmentPath.renewal, .device, "Move the device's expiry on",
                replies: [.init(status: 200, schema: Self.grant, note: "As it is now")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.renew(try request.caller))
            },
            APIRoute(
                .post, EnrolmentPath.rotationNonces, .device, "Ask for a nonce that a new key is proven with",
                replies: [.init(status: 200, schema: RotationNonce.schema, note: "The nonce")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.rotationNonce(try request.caller))
            },
            APIRoute(
                .post, EnrolmentPath.rotations, .device, "Give the device a new key",
                body: RotationRequest.schema,
                replies: [.init(status: 200, schema: Self.grant, note: "With the new key")], problems: [409]
            ) { (request) async throws(GatewayError) in
                let wanted = try request.read { (json) throws(ContractError) in
                    try RotationRequest(json)
                }
                return APIReply(200, try await service.rotate(wanted, try request.caller))
            },
            APIRoute(
                .get, EnrolmentPath.devices, .device, "The devices of the device's user",
                replies: [.init(status: 200, schema: DeviceList.schema, note: "The devices")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.ownDevices(try request.caller))
            },
            APIRoute(
                .delete, EnrolmentPath.devices + "/{id}", .device, "Revoke a device of the same user",
                replies: [.init(status: 204, note: "It is gone"), .unsavedRemoval], problems: [404]
            ) { (request) async throws(GatewayError) in
                .removal(isSaved: try await service.removeOwnDevice(try request.id("device"), try request.caller))
            },
            SystemRoutes.health(at: EnrolmentPath.health),
        ]
    }
}
