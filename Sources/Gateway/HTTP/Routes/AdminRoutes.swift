// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import PacketTunnel
import Provisioning
import TunnelSystem

/// What administrators ask for: all of `/v1` on their listener and on the socket.
package struct AdminRoutes: Sendable {
    let service: GatewayService
    private let invitations: InvitationPlace
    private let backup: Backup?
    private let loginTunnel: LoginTunnelPlace?

    /// Makes an encrypted backup with a passphrase, for somebody who may have one.
    package typealias Backup = @Sendable (_ passphrase: [UInt8], Caller) async throws(GatewayError) -> [UInt8]

    package init(
        _ service: GatewayService, invitations: InvitationPlace, backup: Backup? = nil,
        loginTunnel: LoginTunnelPlace? = nil
    ) {
        self.loginTunnel = loginTunnel
        self.service = service
        self.invitations = invitations
        self.backup = backup
    }

    package var all: [APIRoute] {
        users + logins(loginTunnel) + devices + tokens + invitationRoutes + rules("users", "user") { .user($0) }
            + rules("devices", "device") { .device($0) } + cooldowns + audit + keys + backups
    }

    // MARK: - Parts that many have

    static let paging: [APIRoute.Parameter] = [
        .init(name: "limit", schema: .integer(1...Int64(PageRequest.most)), note: "How many there are on a page"),
        .init(name: "after", schema: .line(1...256), note: "What `next` of the page before said"),
    ]

    static let creationKey = APIRoute.Parameter(
        name: "Idempotency-Key", place: .header, schema: .text(pattern: "^[!-~]{1,128}$", length: 1...128),
        note: "Made up by whoever asks: the same request with the same key makes nothing new")

    /// The answers of a creation.
    static func made(_ schema: JSONSchema) -> [APIRoute.Reply] {
        [
            .init(status: 201, schema: schema, note: "It was made"),
            .init(status: 200, schema: schema, note: "An earlier request with this key made it"),
        ]
    }

    // MARK: - Users

    private var users: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/users", .read, "List users",
                parameters: Self.paging + [
                    .init(name: "login", schema: .line(1...128), note: "Only the user that is called this")
                ], replies: [.init(status: 200, schema: ModelSchemas.page("User"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                let page = try request.page()
                guard let login = request.query["login"] else {
                    return APIReply(200, .page(try await service.users(page, try request.caller)) { $0.json })
                }
                do throws(GatewayError) {
                    let user = try await service.user(login: login, try request.caller)
                    return APIReply(200, .page(Page(items: [user], next: nil)) { $0.json })
                } catch .notFound {
                    return APIReply(200, .page(Page<User>(items: [], next: nil)) { $0.json })
                } catch {
                    throw error
                }
            },
            APIRoute(
                .post, "/v1/users", .manage, "Add a user", parameters: [Self.creationKey], body: .named("UserDraft"),
                replies: Self.made(.named("User")), problems: [409]
            ) { (request) async throws(GatewayError) in
                let draft = try request.read { (json) throws(ContractError) in try User.message.decode(json, .create) }
                let made = try await service.addUser(draft, creationKey: request.creationKey, try request.caller)
                return APIReply(made.isRepetition ? 200 : 201, made.item.json)
            },
            APIRoute(
                .get, "/v1/users/{id}", .read, "Show a user",
                replies: [.init(status: 200, schema: .named("User"), note: "The user")], problems: [404]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.user(try request.id("user"), try request.caller).json)
            },
            APIRoute(
                .patch, "/v1/users/{id}", .manage, "Change a user", body: .named("UserUpdate"),
                replies: [
                    .init(status: 200, schema: .named("User"), note: "As it is now"), .unsavedUpdate("User"),
                ], problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let id = try request.id("user")
                let update = try request.read { (json) throws(ContractError) in try User.message.decode(json, .patch) }
                let user = try await service.updateUser(id, update, try request.caller)
                return APIReply(user.isSaved ? 200 : 202, user.json)
            },
            APIRoute(
                .delete, "/v1/users/{id}", .manage, "Remove a user with all devices, tokens and invitations",
                replies: [.init(status: 204, note: "It is gone"), .unsavedRemoval], problems: [404]
            ) { (request) async throws(GatewayError) in
                .removal(isSaved: try await service.removeUser(try request.id("user"), try request.caller))
            },
        ]
    }

    // MARK: - Devices

    private var devices: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/devices", .read, "List devices",
                parameters: Self.paging + [.init(name: "user", schema: .id, note: "Only those of this user")],
                replies: [.init(status: 200, schema: ModelSchemas.page("Device"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                let page = try await service.devices(
                    of: try request.queriedID("user"), try request.page(), try request.caller)
                return APIReply(200, .page(page) { $0.json })
            },
            APIRoute(
                .post, "/v1/devices", .manage, "Make a device for a stock client, whose key was made elsewhere",
                parameters: [Self.creationKey], body: .named("DeviceDraft"), replies: Self.made(.named("Grant")),
                problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let draft = try request.read { (json) throws(ContractError) in try Device.message.decode(json, .create)
                }
                let made = try await service.addDevice(draft, creationKey: request.creationKey, try request.caller)
                return APIReply(made.isRepetition ? 200 : 201, made.item)
            },
            APIRoute(
                .get, "/v1/devices/{id}", .read, "Show a device",
                replies: [.init(status: 200, schema: .named("Device"), note: "The device")], problems: [404]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.device(try request.id("device"), try request.caller).json)
            },
            APIRoute(
                .get, "/v1/devices/{id}/grant", .manage,
                "What a device for a stock client is configured with, its pre-shared key included",
                replies: [.init(status: 200, schema: .named("Grant"), note: "The grant")], problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.exportedGrant(try request.id("device"), try request.caller))
            },
            APIRoute(
                .patch, "/v1/devices/{id}", .manage, "Change a device", body: .named("DeviceUpdate"),
                replies: [
                    .init(status: 200, schema: .named("Device"), note: "As it is now"), .unsavedUpdate("Device"),
                ], problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let id = try request.id("device")
                let update = try request.read { (json) throws(ContractError) in try Device.message.decode(json, .patch)
                }
                let device = try await service.updateDevice(id, update, try request.caller)
                return APIReply(device.isSaved ? 200 : 202, device.json)
            },
            APIRoute(
                .delete, "/v1/devices/{id}", .manage, "Revoke a device",
                replies: [.init(status: 204, note: "It is gone"), .unsavedRemoval], problems: [404]
            ) { (request) async throws(GatewayError) in
                .removal(isSaved: try await service.removeDevice(try request.id("device"), try request.caller))
            },
        ]
    }

    // MARK: - Tokens

    private var tokens: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/tokens", .read, "List tokens", parameters: Self.paging,
                replies: [.init(status: 200, schema: ModelSchemas.page("Token"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, .page(try await service.tokens(try request.page(), try request.caller)) { $0.json })
            },
            APIRoute(
                .post, "/v1/tokens", .manage, "Make a token, and tell its secret this once",
                parameters: [Self.creationKey], body: .named("TokenDraft"),
                replies: Self.made(.object([.init("token", .named("Token")), .init("secret", .text())])),
                problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let draft = try request.read { (json) throws(ContractError) in
                    try TokenDraft.message.decode(json, .create)
                }
                let made = try await service.addToken(draft, creationKey: request.creationKey, try request.caller)
                return APIReply(
                    made.isRepetition ? 200 : 201,
                    .members(["token": made.item.json, "secret": .string(made.secret.exportedText)]))
            },
            APIRoute(
                .delete, "/v1/tokens/{id}", .manage, "Revoke a token",
                replies: [.init(status: 200, schema: .named("Token"), note: "As it is now"), .unsavedUpdate("Token")],
                problems: [404]
            ) { (request) async throws(GatewayError) in
                let token = try await service.revokeToken(try request.id("token"), try request.caller)
                return APIReply(token.isSaved ? 200 : 202, token.json)
            },
        ]
    }

    // MARK: - Invitations

    private var invitationRoutes: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/invitations", .read, "List invitations", parameters: Self.paging,
                replies: [.init(status: 200, schema: ModelSchemas.page("Invitation"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, .page(try await service.invitations(try request.page(), try request.caller)) { $0.json })
            },
            APIRoute(
                .post, "/v1/invitations", .manage, "Make an invitation, and tell its text this once",
                parameters: [Self.creationKey], body: .named("InvitationDraft"),
                replies: Self.made(
                    .object([.init("invitation", .named("Invitation")), .init("text", .text(note: "One line"))])),
                problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let draft = try request.read { (json) throws(ContractError) in
                    try InvitationDraft.message.decode(json, .create)
                }
                let made = try await service.addInvitation(draft, creationKey: request.creationKey, try request.caller)
                return APIReply(
                    made.isRepetition ? 200 : 201,
                    .members([
                        "invitation": made.item.json,
                        "text": .string(try invitations.text(made.secret, until: made.item.expiresAt)),
                    ]))
            },
            APIRoute(
                .delete, "/v1/invitations/{id}", .manage, "Revoke an invitation",
                replies: [
                    .init(status: 200, schema: .named("Invitation"), note: "As it is now"),
                    .unsavedUpdate("Invitation"),
                ],
                problems: [404, 409]
            ) { (request) async throws(GatewayError) in
                let invitation = try await service.revokeInvitation(
                    try request.id("invitation"), try request.caller)
                return APIReply(invitation.isSaved ? 200 : 202, invitation.json)
            },
        ]
    }

    // MARK: - What there is to see

    private var audit: [APIRoute] {
        [
            APIRoute(
                .get, "/v1/audit", .read, "What was done, the latest first",
                parameters: Self.paging + [
                    .init(
                        name: "action", schema: .choice(AuditRecord.Action.allCases.map(\.rawValue)),
                        note: "Only this"),
                    .init(name: "subject", schema: .line(1...256), note: "Only what was done to this: device:ID"),
                    .init(name: "actor", schema: .line(1...256), note: "Only what this one did: admin:ID"),
                ], replies: [.init(status: 200, schema: ModelSchemas.page("AuditEntry"), note: "A page")]
            ) { (request) async throws(GatewayError) in
                var filter = AuditFilter(subject: request.query["subject"], actor: request.query["actor"])
                if let text = request.query["action"] {
                    guard let action = AuditRecord.Action(rawValue: text) else {
                        throw .invalid(field: "action", problem: "nothing is called so")
                    }
                    filter.action = action
                }
                let page = try await service.audit(filter, try request.page(), try request.caller)
                return APIReply(200, .page(page) { $0.json })
            },
            APIRoute(
                .get, "/v1/status", .read, "How the gateway is",
                replies: [.init(status: 200, schema: .named("Status"), note: "As it is now")]
            ) { (request) async throws(GatewayError) in
                APIReply(200, try await service.status(try request.caller).json)
            },
        ]
    }

    // MARK: - Backups

    private static let passphrase = CompleteMessage<String>(
        { $0 }, TypedField("passphrase", \.self, .line(GatewayBackup.shortestPassphrase...512)))

    private var backups: [APIRoute] {
        guard let backup else { return [] }
        return [
            APIRoute(
                .post, "/v1/backups", .manage,
                "Make a backup of everything but the backup key, encrypted with a passphrase",
                body: Self.passphrase.schema(.create),
                replies: [
                    .init(
                        status: 200, schema: .text(), mediaType: "application/octet-stream",
                        note: "The file, for culvert gateway restore")
                ]
            ) { (request) async throws(GatewayError) in
                let caller = try request.caller
                try caller.check(.manage)
                let passphrase = try request.read { (json) throws(ContractError) in
                    Array(try Self.passphrase.decode(json, .create).utf8)
                }
                return APIReply(
                    200, mediaType: "application/octet-stream", body: try await backup(passphrase, caller))
            }
        ]
    }

    // MARK: - The gateway's own keys

    private var keys: [APIRoute] {
        [
            APIRoute(
                .post, "/v1/server-key", .manage,
                "Announce a new server key, which takes the place of the old one after the settings' overlap",
                replies: [.init(status: 200, schema: .named("Status"), note: "As it is now")], problems: [409]
            ) { (request) async throws(GatewayError) in
                _ = try await service.announceServerKey(try request.caller)
                return APIReply(200, try await service.status(try request.caller).json)
            },
            APIRoute(
                .delete, "/v1/server-key", .manage, "Take a server key back that was announced",
                replies: [.init(status: 204, note: "The old one stays")], problems: [409]
            ) { (request) async throws(GatewayError) in
                try await service.cancelServerKeyRotation(try request.caller)
                return .empty
            },
        ]
    }
}
