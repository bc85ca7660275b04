// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import PacketTunnel
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
                body: .object(
                    [
                        .init("publicKey", .key),
                        .init("credential", .text(pattern: "^cd_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")),
                        .init("name", .line(1...64), isRequired: false),
                        .init("platform", .line(1...32), isRequired: false),
                    ], isClosed: true),
                replies: [
                    .init(status: 201, schema: Self.grant, note: "The device"),
                    .init(status: 200, schema: Self.grant, note: "The same request was answered before"),
                ], problems: [409]
            ) { (request) async throws(GatewayError) in
                let wanted = try request.read { (json) throws(ContractError) in
                    try EnrolmentRequest(json: JSONValue(json))
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
                replies: [
                    .init(
                        status: 200,
                        schema: .object([
                            .init("nonce", .key), .init("serverKey", .key), .init("lifetimeSeconds", .seconds),
                        ]), note: "The nonce")
                ]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.rotationNonce(try request.caller))
            },
            APIRoute(
                .post, EnrolmentPath.rotations, .device, "Give the device a new key",
                body: .object(
                    [.init("publicKey", .key), .init("nonce", .key), .init("proof", .key)], isClosed: true),
                replies: [.init(status: 200, schema: Self.grant, note: "With the new key")], problems: [409]
            ) { (request) async throws(GatewayError) in
                let wanted = try request.read { (json) throws(ContractError) in
                    try RotationRequest(json: JSONValue(json))
                }
                return APIReply(200, try await service.rotate(wanted, try request.caller))
            },
            APIRoute(
                .get, EnrolmentPath.devices, .device, "The devices of the device's user",
                replies: [
                    .init(
                        status: 200,
                        schema: .object([
                            .init(
                                "devices",
                                .list(
                                    of: .object([
                                        .init("id", .id), .init("name", .text()),
                                        .init("platform", .text(), isRequired: false), .init("publicKey", .key),
                                        .init("createdAt", .time),
                                        .init("expiresInSeconds", .seconds, isRequired: false),
                                        .init("lastSeenSecondsAgo", .seconds, isRequired: false),
                                        .init("isCurrent", .flag),
                                    ])))
                        ]), note: "The devices")
                ]
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
