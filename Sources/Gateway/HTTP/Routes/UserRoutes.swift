// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HTTPTypes
import PasswordHashing
import Provisioning
import TunnelSystem

/// Users, and their passwords for the login tunnel.
package enum UserRoutes {
    private static let shape = ReplyShape<User>("User", first: "login")

    package static let login = RouteDescription.Parameter(
        "login", .line(1...128), "Only the user with this login")

    package static let list = Route<Void, Page<User>>(
        .get, "/v1/users", .read, "List users", reply: .page(shape), parameters: [login])
    package static let add = Route<UserDraft, Created<User>>(
        .post, "/v1/users", .manage, "Add a user", body: .form(.create, "UserDraft"), reply: .created(shape),
        errors: [409])
    package static let show = Route<Void, User>(
        .get, "/v1/users/{id}", .read, "Show a user", reply: .one(shape, "The user"), errors: [404])
    package static let change = Route<UserUpdate, User>(
        .patch, "/v1/users/{id}", .manage, "Change a user", body: .form(.patch, "UserUpdate"),
        reply: .changed(shape), errors: [404, 409])
    package static let remove = Route<Void, Bool>(
        .delete, "/v1/users/{id}", .manage, "Remove a user with all devices, tokens and invitations",
        reply: .removal, errors: [404])
    package static let setPassword = Route<SecretText, User>(
        .put, "/v1/users/{id}/password", .manage,
        "Set a user's password for the login tunnel, and end sessions that began with the old one",
        body: .secret("password", passwordFormat), reply: .changed(shape), errors: [404])
    package static let removePassword = Route<Void, User>(
        .delete, "/v1/users/{id}/password", .manage,
        "Remove a user's password, and end the user's sessions of the login tunnel",
        reply: .changed(shape), errors: [404])

    /// The service checks the length.
    private static let passwordFormat = ValueFormat<String>(
        .text(length: PasswordHash.fewestCharacters...PasswordHash.mostBytes)
    ) { (value) throws(ContractError) in
        try value.text()
    } text: {
        $0
    }
}

extension AdminRoutes {
    func registerUsers(in list: inout RouteList) {
        list.register(UserRoutes.list) { call in
            let page = try call.page()
            guard let login = call[UserRoutes.login] else { return try await service.users(page, call.caller) }
            do {
                return Page(items: [try await service.user(login: login, call.caller)], next: nil)
            } catch GatewayError.notFound {
                return Page(items: [], next: nil)
            }
        }
        list.register(UserRoutes.add) {
            try await service.addUser($0.body, creationKey: $0.creationKey, $0.caller)
        }
        list.register(UserRoutes.show) { try await service.user($0.id(), $0.caller) }
        list.register(UserRoutes.change) { try await service.updateUser($0.id(), $0.body, $0.caller) }
        list.register(UserRoutes.remove) { try await service.removeUser($0.id(), $0.caller) }
    }

    func registerPasswords(in list: inout RouteList) {
        list.register(UserRoutes.setPassword) { call in
            var password = call.body.removeBytes()
            defer { wipe(&password) }
            return try await service.setPassword(of: call.id(), password, call.caller)
        }
        list.register(UserRoutes.removePassword) {
            try await service.setPassword(of: $0.id(), nil, $0.caller)
        }
    }
}
