// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import Provisioning
import TunnelSystem

/// The gateway's state, its audit log, its key and its backup.
package enum ManagementRoutes {
    package static let action = RouteDescription.Parameter(
        "action", .choice(AuditRecord.Action.allCases.map(\.rawValue)), "Only this action")
    package static let subject = RouteDescription.Parameter(
        "subject", .line(1...256), "Only entries with this subject, such as device:ID")
    package static let actor = RouteDescription.Parameter(
        "actor", .line(1...256), "Only entries of this actor, such as admin:ID")

    package static let audit = Route<Void, Page<AuditEntry>>(
        .get, "/v1/audit", .read, "List the audit log, the latest entry first",
        reply: .page(ReplyShape("AuditEntry")), parameters: [action, subject, actor])
    package static let status = Route<Void, GatewayStatus>(
        .get, "/v1/status", .read, "Show the state of the gateway", reply: .one(statusShape, "The current state"))
    package static let announceKey = Route<Void, GatewayStatus>(
        .post, "/v1/server-key", .manage,
        "Announce a new server key, which replaces the old one after the overlap in the settings",
        reply: .one(statusShape, "The current state"), errors: [409])
    package static let cancelKey = Route<Void, Void>(
        .delete, "/v1/server-key", .manage, "Cancel the announcement of a server key",
        reply: .none("The active key remains"), errors: [409])
    package static let backUp = Route<SecretText, ReplyStream>(
        .post, "/v1/backups", .socket,
        "Make a backup, encrypted with a passphrase, of everything except the backup key",
        body: .secret("passphrase", .line(GatewayBackup.shortestPassphrase...512)),
        reply: .stream("application/octet-stream", "The file for culvert gateway restore"))

    private static let statusShape = ReplyShape<GatewayStatus>("Status")
}

extension AdminRoutes {
    func registerGateway(in list: inout RouteList) {
        typealias Routes = ManagementRoutes
        list.register(Routes.audit) { call in
            var filter = AuditFilter(subject: call[Routes.subject], actor: call[Routes.actor])
            if let text = call[Routes.action] {
                guard let action = AuditRecord.Action(rawValue: text) else {
                    throw GatewayError.invalid(field: Routes.action.name, problem: "must be the name of an action")
                }
                filter.action = action
            }
            return try await service.audit(filter, call.page(), call.caller)
        }
        list.register(Routes.status) { try await service.status($0.caller) }
        list.register(Routes.announceKey) { call in
            _ = try await service.announceServerKey(call.caller)
            return try await service.status(call.caller)
        }
        list.register(Routes.cancelKey) { try await service.cancelServerKeyRotation($0.caller) }
        guard let backup else { return }
        list.register(Routes.backUp) { call in
            try call.caller.check(.manageLocally)
            var passphrase = call.body.removeBytes()
            defer { wipe(&passphrase) }
            return try await backup(passphrase, call.caller)
        }
    }
}
