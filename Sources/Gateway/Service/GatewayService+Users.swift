// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning

extension GatewayService {
    package func users(_ page: PageRequest, _ caller: Caller) async throws(GatewayError) -> Page<User> {
        try caller.check(.read)
        var found = try await stored("user", try await store.users(page))
        found.items = found.items.map(inEffect)
        return found
    }

    package func user(_ id: UserID, _ caller: Caller) async throws(GatewayError) -> User {
        try caller.check(.read)
        let user = try await stored("user", try await store.user(id))
        guard let user else { throw .notFound("user") }
        return inEffect(user)
    }

    package func user(login: String, _ caller: Caller) async throws(GatewayError) -> User {
        try caller.check(.read)
        let user = try await stored("user", try await store.user(login: login))
        guard let user else { throw .notFound("user") }
        return inEffect(user)
    }

    /// - Parameter creationKey: 1 to 128 characters that the caller chose. A repetition of the request with the same
    ///   key makes nothing new.
    package func addUser(
        _ draft: UserDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Created<User> {
        try caller.check(.manage)
        let now = now
        try check(draft, .create)
        try InputValidation.end(draft.expiresAt ?? nil, after: now)
        try InputValidation.addresses(draft.addresses ?? [], in: settings.addresses)
        var random = random
        var user = User(id: UserID(using: &random), login: "", createdAt: now)
        let creation = try creation(creationKey, "user \(draft.canonicalText(standard: user))", caller)
        draft.apply(to: &user)
        user.expiresAt = user.expiresAt.map { Date(milliseconds: $0.milliseconds) }
        let (added, limits) = (user, limits(at: now))
        let audit = record(.userAdded, "user:\(user.id)", caller, ["login": user.login])
        let made = try await named(user.login) { () async throws(GatewayError) in
            try await changed("user", try await store.add(added, limits, creation, audit))
        }
        return Created(item: inEffect(made.item), isRepetition: made.isRepetition)
    }

    package func updateUser(
        _ id: UserID, _ update: UserUpdate, _ caller: Caller
    ) async throws(GatewayError) -> User {
        try caller.check(.manage)
        var update = update
        try check(update, .patch)
        if let end = update.expiresAt {
            try InputValidation.end(end, after: now)
            update.expiresAt = .some(end.map { Date(milliseconds: $0.milliseconds) })
        }
        if let addresses = update.addresses { try InputValidation.addresses(addresses, in: settings.addresses) }
        let limits = limits(at: now)
        let audit = record(.userChanged, "user:\(id)", caller, update.details)
        let checked = update
        @Sendable func save() async throws(GatewayError) -> User {
            try await named(checked.login ?? "") { () async throws(GatewayError) in
                try await changed("user", try await store.update(user: id, checked, limits, audit))
            }
        }
        guard let isEnabled = update.isEnabled else { return inEffect(try await save()) }
        guard !isEnabled else { return inEffect(try await permitAccess(.disabledUser(id), save)) }
        var disabling = UserUpdate()
        disabling.isEnabled = false
        let short = record(.userChanged, "user:\(id)", caller, disabling.details)
        if let changed = try await endAccess(.disabledUser(id), short, save) { return inEffect(changed) }
        guard update == disabling else { throw .onlyDisabled }
        return try await user(id, caller)
    }

    /// Checks values that are not from a request against the declaration of their type.
    func check<Root: Declared>(_ values: FieldValues<Root>, _ form: MessageForm) throws(GatewayError) {
        do throws(ContractError) { try values.check(form) } catch { throw GatewayError(error) }
    }

    /// Checks a draft that this program made as if a client had sent it.
    func check<Draft>(_ draft: Draft, _ message: CompleteMessage<Draft>) throws(GatewayError) {
        do throws(ContractError) { try message.check(draft) } catch { throw GatewayError(error) }
    }

    /// Runs an operation, and adds the login to an error about a login in use.
    private func named<Result>(
        _ login: String, _ operation: () async throws(GatewayError) -> Result
    ) async throws(GatewayError) -> Result {
        do throws(GatewayError) { return try await operation() } catch {
            if case .loginInUse = error { throw .loginInUse(login) }
            throw error
        }
    }

    /// Removes a user with all devices, tokens and invitations.
    /// - Returns: Whether the removal is saved. It is in effect in any case.
    @discardableResult
    package func removeUser(_ id: UserID, _ caller: Caller) async throws(GatewayError) -> Bool {
        try caller.check(.manage)
        return try await endAccess(.removedUser(id), record(.userRemoved, "user:\(id)", caller))
    }
}
