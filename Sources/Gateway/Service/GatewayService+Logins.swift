// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
package import NetworkAddresses
package import PacketTunnel
import PasswordHashing
import Provisioning
import Synchronization
import TunnelSystem

/// Somebody who logs in to the login tunnel.
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

/// What becomes of it.
package enum LoginJudgement: Equatable, Sendable {
    /// A session of this device, for as long as its plan has this password.
    case accepted(DeviceID, StoredPassword, [IPAddress])
    case refused(Refusal)

    package enum Refusal: Equatable, Sendable {
        /// A wrong password or an unknown login, which nobody tells apart.
        case wrong
        /// There were too many failures or logins recently: attempts are refused for this time.
        case tooEarly(seconds: Int)
        /// The password was right, and the user is not let in.
        case disabled, expired
        /// The password was right, and there is no address or no device to be had.
        case full(String)
    }
}

extension GatewayService {
    /// Sets what a user logs in to the login tunnel with, or takes it away. Sessions begun with the old password end.
    package func setPassword(
        of id: UserID, _ password: [UInt8]?, _ caller: Caller
    ) async throws(GatewayError) -> User {
        try caller.check(.manage)
        var update = UserUpdate()
        update.password = .some(nil)
        if let password {
            guard PasswordHash.isAcceptable(password) else {
                throw .invalid(
                    field: "password",
                    problem:
                        "it has \(PasswordHash.fewestCharacters) characters at least and \(PasswordHash.mostBytes) bytes at most"
                )
            }
            // What the login tunnel can carry of it, however few characters those are.
            guard try await user(id, caller).login.utf8.count <= 128 else {
                throw .invalid(
                    field: "login", problem: "for the login tunnel it has 128 bytes at most: give the user another")
            }
            update.password = .some(try await passwords.hash(password))
        }
        return try await updateUser(id, update, caller)
    }

    /// Whether a login has succeeded from an address recently. It does not wait.
    package func isKnownLogin(_ login: String, from source: IPAddress) -> Bool {
        state.withLock { $0.logins.isKnown(login, from: source) }
    }

    /// Judges a login. A wrong password and an unknown login are alike in the answer, in what they take and in what is counted.
    package func logIn(_ request: LoginRequest, _ caller: Caller) async throws(GatewayError) -> LoginJudgement {
        try caller.check(.run)
        let (source, time) = (request.source.address, nanoseconds)
        let wait = state.withLock { $0.logins.wait(from: source, as: request.login, at: time) }
        let user = try await stored("user") { () throws(StoreError) in try await store.user(login: request.login) }
        guard wait == 0 else {
            let seconds = Int((wait + 999_999_999) / 1_000_000_000)
            return try await refuse(
                .tooEarly(seconds: seconds), user, source, "too many attempts, \(seconds) s to wait")
        }
        let isRight = try await passwords.matches(user?.password, request.password)
        guard let user, let password = user.password, isRight else {
            let time = nanoseconds
            state.withLock { $0.logins.failed(from: source, as: request.login, at: time) }
            return try await refuse(.wrong, user, source, "wrong password or unknown login")
        }
        let succeeded = nanoseconds
        state.withLock { state in
            state.logins.succeeded(from: source, as: request.login)
            state.logins.charge(request.login, at: succeeded)
        }
        var random = random
        let now = now
        let lease = LoginLease(
            userID: user.id, password: password, busy: request.busy, deviceID: DeviceID(using: &random),
            sessionsPerUser: settings.loginTunnel.sessionsPerUser, limits: limits(at: now), now: now,
            source: request.source)
        let outcome: LoginLeaseOutcome
        do throws(GatewayError) {
            outcome = try await changed("user") { () throws(StoreError) in try await store.lease(lease) }
        } catch {
            switch error {
            case .poolFull, .deviceLimit, .gatewayFull:
                return try await refuse(.full("\(error)"), user, source, error.code)
            default: throw error
            }
        }
        switch outcome {
        case .given(let given):
            logger.info("'\(user.login)' logged in from \(source), and has device \(given.device.id)")
            return .accepted(given.device.id, password, given.device.addresses)
        // As whoever comes a moment later is answered.
        case .changed: return try await refuse(.wrong, user, source, "another password by now")
        case .userDisabled: return try await refuse(.disabled, user, source, "the user is disabled")
        case .userExpired: return try await refuse(.expired, user, source, "the user has expired")
        }
    }

    /// Logs a refusal, and writes it to the audit log, at a bounded rate; without what somebody typed unless a user is called so: it
    /// may be a password.
    private func refuse(
        _ refusal: LoginJudgement.Refusal, _ user: User?, _ source: IPAddress, _ why: String
    ) async throws(GatewayError) -> LoginJudgement {
        let time = nanoseconds
        let lines = state.withLock { $0.refusals.lines(why, at: time) }
        guard let last = lines.last else { return .refused(refusal) }
        let name = user.map { "'\($0.login)'" } ?? "an unknown login"
        logger.warning("\(name) was refused from \(source): \(last)")
        var details = ["reason": last]
        // How many there were that have no entry.
        if lines.count > 1 { details["before"] = lines[0] }
        let audit = AuditRecord(
            at: now, actor: Caller.gateway.name, source: source, action: .loginRefused,
            subject: user.map { "user:\($0.id)" } ?? "gateway", details: details)
        try await stored("user") { () throws(StoreError) in try await store.append(audit, change: nil) }
        return .refused(refusal)
    }
}
