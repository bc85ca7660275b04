// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
package import NetworkAddresses
package import PacketTunnel
import PasswordHashing
import Provisioning
import Synchronization
import TunnelSystem

/// A request to log in to the login tunnel.
package struct LoginRequest: Sendable {
    package var login: String
    package var password: SecretBytes
    package var source: Endpoint
    /// Devices that have sessions, the oldest session first.
    package var busy: [DeviceID]

    package init(login: String, password: SecretBytes, source: Endpoint, busy: [DeviceID]) {
        self.login = login
        self.password = password
        self.source = source
        self.busy = busy
    }
}

/// The result of a login.
package enum LoginJudgement: Equatable, Sendable {
    /// The login was accepted: a session of this device with these addresses. It lasts while the user has this
    /// password.
    case accepted(DeviceID, StoredPassword, [IPAddress])
    case refused(Refusal)

    package enum Refusal: Equatable, Sendable {
        /// A wrong password or an unknown login; the two are indistinguishable.
        case wrong
        /// There were too many failures or logins recently. Attempts are refused for this number of seconds.
        case tooEarly(seconds: Int)
        /// The password was right, but the user is disabled or has expired.
        case disabled, expired
        /// The password was right, but no address or device is free.
        case full(String)
        /// The user was changed repeatedly while the password was compared. A later attempt may succeed.
        case changed
    }
}

extension GatewayService {
    /// Sets or removes a user's password for the login tunnel. Sessions that began with the old password end.
    ///
    /// The old password is denied even if the database refuses writes. A new password permits logins once it is saved.
    /// - Throws: `.unavailable` if the database refuses the first password of a user, who then has none.
    package func setPassword(
        of id: UserID, _ password: [UInt8]?, _ caller: Caller
    ) async throws(GatewayError) -> User {
        try caller.check(.manage)
        // The counter makes a login that is being compared read its user again.
        defer { passwordChanges.add(1, ordering: .sequentiallyConsistent) }
        let audit = record(.userChanged, "user:\(id)", caller, ["password": "changed"])
        guard let password else {
            _ = try await endAccess(.removedPassword(id), audit)
            return try await user(id, caller)
        }
        guard PasswordHash.isAcceptable(password) else {
            throw .invalid(
                field: "password",
                problem:
                    "must have at least \(PasswordHash.fewestCharacters) characters and at most \(PasswordHash.mostBytes) bytes"
            )
        }
        // The login tunnel's protocol limits a login to 128 bytes. A login within the limit of characters may have
        // more.
        let user = try await user(id, caller)
        guard user.login.utf8.count <= 128 else {
            throw .invalid(
                field: "login", problem: "must not exceed 128 bytes for the login tunnel: choose a shorter one")
        }
        let new = try await passwords.hash(password)
        guard user.password == nil else {
            _ = try await endAccess(.changedPassword(id, new), audit)
            return try await self.user(id, caller)
        }
        var update = UserUpdate()
        update.password = .some(new)
        let checked = update
        let changed = try await permitAccess(.removedPassword(id)) { () async throws(GatewayError) in
            try await self.changed("user", try await self.store.update(user: id, checked, audit))
        }
        return inEffect(changed)
    }

    /// Whether a login from an address has succeeded in the last seven days. It does not wait.
    package func isKnownLogin(_ login: String, from source: IPAddress) -> Bool {
        let time = nanoseconds
        return logins.withLock { $0.isKnown(login, from: source, at: time) }
    }

    /// Authenticates a login. A wrong password and an unknown login do not differ in the answer, the time or the
    /// counters.
    package func logIn(_ request: LoginRequest, _ caller: Caller) async throws(GatewayError) -> LoginJudgement {
        try caller.check(.run)
        let (source, time) = (request.source.address, nanoseconds)
        let wait = logins.withLock { $0.wait(from: source, as: request.login, at: time) }
        var changes = passwordChanges.load(ordering: .sequentiallyConsistent)
        let user = try await user(of: request)
        guard wait == 0 else {
            let seconds = Int((wait + 999_999_999) / 1_000_000_000)
            return try await refuse(
                .tooEarly(seconds: seconds), user, source, "too many attempts, must wait \(seconds) s")
        }
        if let judgement = try await authenticate(request, user, changes) { return judgement }
        // A password was changed during the comparison.
        changes = passwordChanges.load(ordering: .sequentiallyConsistent)
        let present = try await self.user(of: request)
        if let judgement = try await authenticate(request, present, changes) { return judgement }
        return try await refuse(.changed, present, source, "the user was changed while the password was compared")
    }

    private func user(of request: LoginRequest) async throws(GatewayError) -> User? {
        try await stored("user", try await store.user(login: request.login)).map(inEffect)
    }

    /// - Parameter changes: The number of changes of passwords before the user was read.
    /// - Returns: `nil` if the user's password was changed during the comparison.
    private func authenticate(
        _ request: LoginRequest, _ user: User?, _ changes: Int
    ) async throws(GatewayError) -> LoginJudgement? {
        let source = request.source.address
        // Read this for known logins too, so that known and unknown logins take the same time.
        let other = try await password(forUnknown: request.login)
        let isRight = try await passwords.matches(user?.password, orAsCostlyAs: other, request.password)
        guard let user, let password = user.password, isRight else {
            // Read the user again only after a password has changed, because wrong guesses are frequent.
            if changes != passwordChanges.load(ordering: .sequentiallyConsistent),
                try await self.user(of: request)?.password != user?.password
            {
                return nil
            }
            let time = nanoseconds
            logins.withLock { $0.failed(from: source, as: request.login, at: time) }
            return try await refuse(.wrong, user, source, "wrong password or unknown login")
        }
        if denials.passwords.contains(user.id) {
            // The password was changed or removed during the comparison.
            guard inEffect(user).password == password else { return nil }
            // The store still has the previous password, so it would refuse the lease.
            recordSuccess(request)
            return try await refuse(.changed, user, source, "the new password is not saved yet")
        }
        let outcome: LoginLeaseOutcome
        do throws(GatewayError) {
            outcome = try await changed("user", try await store.lease(lease(for: request, user, password)))
        } catch {
            recordSuccess(request)
            switch error {
            case .poolFull, .deviceLimit, .gatewayFull:
                return try await refuse(.full("\(error)"), user, source, error.code)
            default: throw error
            }
        }
        // The password was replaced: `nil` makes the caller compare again.
        if case .changed = outcome { return nil }
        recordSuccess(request)
        switch outcome {
        case .given(let given):
            logger.info("'\(user.login)' logged in from \(source) with device \(given.device.id)")
            return .accepted(given.device.id, password, given.device.addresses)
        case .changed, .deviceGone: return nil
        case .userDisabled: return try await refuse(.disabled, user, source, "the user is disabled")
        case .userExpired: return try await refuse(.expired, user, source, "the user has expired")
        }
    }

    private func lease(for request: LoginRequest, _ user: User, _ password: StoredPassword) -> LoginLease {
        var random = random
        let now = now
        return LoginLease(
            userID: user.id, password: password, busy: request.busy, deviceID: DeviceID(using: &random),
            sessionsPerUser: settings.loginTunnel.sessionsPerUser, limits: limits(at: now), now: now,
            source: request.source)
    }

    /// Leases addresses for a login with a valid ticket. Its password is not checked.
    ///
    /// The ticket is void if the user was disabled, has expired, was removed or has another password, or if the device
    /// was removed or the lifetime of its session has passed.
    /// - Parameter isOwnSession: Whether the device's current session is the one in which the ticket was issued.
    /// - Returns: `nil` if the ticket is void: authenticate the login instead.
    package func resume(
        _ resumption: LoginResumption, _ request: LoginRequest, isOwnSession: Bool, _ caller: Caller
    ) async throws(GatewayError) -> LoginJudgement? {
        try caller.check(.run)
        let lifetime = Int64(settings.loginTunnel.sessionLifetimeSeconds)
        let age = Int64(now.timeIntervalSince1970) - resumption.verifiedAt
        guard lifetime == 0 || age < lifetime, let user = try await user(of: request), let password = user.password,
            user.isActive(at: now), resumption.matches(password), !denials.passwords.contains(user.id)
        else { return nil }
        let (source, time) = (request.source.address, nanoseconds)
        // The ticket makes the source known, so the failures of other clients there do not delay the login.
        let wait = logins.withLock { logins in
            logins.succeeded(from: source, as: request.login, at: time)
            return logins.wait(from: source, as: request.login, at: time)
        }
        guard wait == 0 else {
            let seconds = Int((wait + 999_999_999) / 1_000_000_000)
            return try await refuse(
                .tooEarly(seconds: seconds), user, source, "too many attempts, must wait \(seconds) s")
        }
        var lease = lease(for: request, user, password)
        lease.resumed = LoginLease.ResumedDevice(id: resumption.device, isOwnSession: isOwnSession)
        let outcome: LoginLeaseOutcome
        do throws(GatewayError) {
            outcome = try await changed("user", try await store.lease(lease))
        } catch {
            switch error {
            case .poolFull, .deviceLimit, .gatewayFull:
                return try await refuse(.full("\(error)"), user, source, error.code)
            default: throw error
            }
        }
        guard case .given(let given) = outcome else { return nil }
        logins.withLock { $0.charge(request.login, at: time) }
        logger.info("'\(user.login)' resumed its session from \(source) with device \(given.device.id)")
        return .accepted(given.device.id, password, given.device.addresses)
    }

    /// The password with which an unknown login is compared; `nil` if no user has a password. A secret hash of the
    /// login selects the user. An unknown login thus takes as long as the login of this user, so its time does not
    /// reveal that it is unknown.
    func password(forUnknown login: String) async throws(GatewayError) -> StoredPassword? {
        let hash = SecretHash(of: unknownLogins.bytes + Array(login.utf8))
        var random = SeedBytes(hash)
        let near = UserID(using: &random)
        return try await stored("user", try await store.password(near: near))
    }

    /// Records a login with the correct password, and counts it against the rate limit.
    private func recordSuccess(_ request: LoginRequest) {
        let time = nanoseconds
        logins.withLock { logins in
            logins.succeeded(from: request.source.address, as: request.login, at: time)
            logins.charge(request.login, at: time)
        }
    }

    /// Logs and audits a refusal at a bounded rate. Includes the login only if a user has it, because people type
    /// passwords into the wrong field.
    private func refuse(
        _ refusal: LoginJudgement.Refusal, _ user: User?, _ source: IPAddress, _ why: String
    ) async throws(GatewayError) -> LoginJudgement {
        let time = nanoseconds
        let lines = state.withLock { $0.refusals.lines(why, at: time) }
        guard let last = lines.last else { return .refused(refusal) }
        let name = user.map { "'\($0.login)'" } ?? "an unknown login"
        logger.warning("\(name) was refused from \(source): \(last)")
        var details = ["reason": last]
        // The number of refusals without an audit entry.
        if lines.count > 1 { details["before"] = lines[0] }
        let audit = AuditRecord(
            at: now, actor: Caller.gateway.name, source: source, action: .loginRefused,
            subject: user.map { "user:\($0.id)" } ?? "gateway", details: details)
        try await stored("user", try await store.append(audit, change: nil))
        return .refused(refusal)
    }
}

/// A generator whose random numbers are the bytes of a hash.
private struct SeedBytes: RandomNumberGenerator {
    private var bytes: ArraySlice<UInt8>

    init(_ hash: SecretHash) { bytes = hash.bytes[...] }

    mutating func next() -> UInt64 {
        defer { bytes = bytes.dropFirst(8) }
        return bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
