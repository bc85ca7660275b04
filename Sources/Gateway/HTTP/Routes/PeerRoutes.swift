// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
package import Provisioning
import TunnelSystem

/// Devices, for administrators. ``EnrolmentRoutes`` has the routes for devices.
package enum PeerRoutes {
    private static let shape = ReplyShape<Device>("Device", first: "name")

    package static let user = RouteDescription.Parameter("user", .id, "Only devices of this user")

    package static let list = Route<Void, Page<Device>>(
        .get, "/v1/devices", .read, "List devices", reply: .page(shape), parameters: [user])
    package static let add = Route<DeviceDraft, Created<EnrolmentGrant>>(
        .post, "/v1/devices", .manage, "Make a device for a stock client, whose key was made elsewhere",
        body: .form(.create, "DeviceDraft"), reply: .created(.grant("")), errors: [404, 409])
    package static let show = Route<Void, Device>(
        .get, "/v1/devices/{id}", .read, "Show a device", reply: .one(shape, "The device"), errors: [404])
    package static let grant = Route<Void, EnrolmentGrant>(
        .get, "/v1/devices/{id}/grant", .manage,
        "Show the grant of a device for a stock client, including its pre-shared key",
        reply: .grant("The grant"), errors: [404, 409])
    package static let change = Route<DeviceUpdate, Device>(
        .patch, "/v1/devices/{id}", .manage, "Change a device", body: .form(.patch, "DeviceUpdate"),
        reply: .changed(shape), errors: [404, 409])
    package static let remove = Route<Void, Bool>(
        .delete, "/v1/devices/{id}", .manage, "Revoke a device", reply: .removal, errors: [404])
}

extension AdminRoutes {
    func registerPeers(in list: inout RouteList) {
        list.register(PeerRoutes.list) { try await service.devices(of: $0.id(PeerRoutes.user), $0.page(), $0.caller) }
        list.register(PeerRoutes.add) {
            try await service.addDevice($0.body, creationKey: $0.creationKey, $0.caller)
        }
        list.register(PeerRoutes.show) { try await service.device($0.id(), $0.caller) }
        list.register(PeerRoutes.grant) { try await service.exportedGrant($0.id(), $0.caller) }
        list.register(PeerRoutes.change) { try await service.updateDevice($0.id(), $0.body, $0.caller) }
        list.register(PeerRoutes.remove) { try await service.removeDevice($0.id(), $0.caller) }
    }
}
