// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
package import PacketTunnelLinux
import Provisioning
import Synchronization
import TunnelSystem

// An end of access takes effect in memory first. The store saves it as soon as it accepts writes.

extension GatewayService {
    /// The devices, users and passwords that are denied, even if the store admits them. Read this before you read the
    /// store, so that no end of access is missed.
    package var denials: AccessDenials { ends.withLock { $0.denials } }

    // MARK: - Ending access

    /// Ends access: in memory first, then in the store.
    /// - Returns: Whether the end is saved. If not, it is in effect, and ``saveEnds(until:)`` will retry the write.
    /// - Throws: An error of the store other than a failure to write. The access has then not ended.
    func endAccess(_ end: AccessEnd, _ audit: AuditRecord) async throws(GatewayError) -> Bool {
        try await endAccess(end, audit) { () async throws(GatewayError) in try await self.write(end, audit) } != nil
    }

    /// Ends access in memory first, then with an operation of the store.
    /// - Returns: The result of the operation; `nil` if the end of access is in effect and not saved.
    func endAccess<Result: Sendable>(
        _ end: AccessEnd, _ audit: AuditRecord,
        _ operation: @escaping @Sendable () async throws(GatewayError) -> Result
    ) async throws(GatewayError) -> Result? {
        let isNew = ends.withLock { $0.add(end, audit) }
        signalChange()
        return try await endings.run { await self.save(end, audit, isNew: isNew, operation) }.get()
    }

    /// Permits access with an operation of the store, and cancels an end of this access that is not saved yet.
    func permitAccess<Permitted: Sendable>(
        _ end: AccessEnd, _ operation: @escaping @Sendable () async throws(GatewayError) -> Permitted
    ) async throws(GatewayError) -> Permitted {
        try await endings.run { () async -> Result<Permitted, GatewayError> in
            do throws(GatewayError) {
                let result = try await operation()
                self.forget(end)
                return .success(result)
            } catch {
                return .failure(error)
            }
        }.get()
    }

    /// Writes the ends of access that the store has refused.
    /// - Parameter end: The time until which it continues after a refusal, in nanoseconds; `nil` to stop at the first
    ///   refusal.
    package func saveEnds(until end: Int64? = nil) async {
        guard ends.withLock({ $0.entries.contains(where: \.isRefused) }) else { return }
        await endings.run {
            for entry in self.ends.withLock({ $0.entries }) where entry.isRefused {
                let saved = await self.save(entry.end, entry.audit, isNew: true) { () async throws(GatewayError) in
                    try await self.write(entry.end, entry.audit)
                }
                switch saved {
                case .success(.some):
                    self.logger.notice("saved an end of access that was already in effect: \(entry.end.text)")
                // Stop here: each further write could wait as long for a database that another process has locked. The
                // next call starts with other ends, so that an end whose write always fails does not delay them. The
                // last call has a time limit instead, because no other call follows.
                case .success(nil): guard let end, self.nanoseconds < end else { return }
                case .failure: break
                }
            }
        }
    }

    /// - Parameter isNew: Whether an error of this request cancels the end of access. It must be `false` if the reply
    ///   to an earlier request may have reported the end as in effect.
    private func save<Saved: Sendable>(
        _ end: AccessEnd, _ audit: AuditRecord, isNew: Bool,
        _ operation: @Sendable () async throws(GatewayError) -> Saved
    ) async -> Result<Saved?, GatewayError> {
        do throws(GatewayError) {
            let saved = try await operation()
            forget(end)
            return .success(saved)
        } catch {
            if case .unavailable(let reason) = error {
                ends.withLock { ends in
                    // Add the end again, because a request that permits access may have removed it.
                    ends.add(end, audit)
                    ends.markRefused(end)
                }
                logFailure("cannot save that \(end.text); it is in effect, will retry: \(reason)")
                return .success(nil)
            }
            if isNew { forget(end) }
            return .failure(error)
        }
    }

    /// Removes an end of access that the store has saved, or that is not valid. The caller must have changed the store
    /// before, so that readers of the store see the change.
    private func forget(_ end: AccessEnd) {
        ends.withLock { $0.remove(end) }
        signalChange()
    }

    private func write(_ end: AccessEnd, _ audit: AuditRecord) async throws(GatewayError) {
        switch end {
        case .removedDevice(let id, let owner):
            try await changed("device", try await store.remove(device: id, of: owner, audit))
        case .removedUser(let id):
            try await changed("user", try await store.remove(user: id, audit))
        case .disabledDevice(let id):
            var update = DeviceUpdate()
            update.isEnabled = false
            let (limits, checked) = (limits(at: now), update)
            _ = try await changed("device", try await store.change(device: id, .update(checked, limits), audit))
        case .disabledUser(let id):
            var update = UserUpdate()
            update.isEnabled = false
            try await write(update, of: id, audit)
        case .removedPassword(let id): try await write(password: nil, of: id, audit)
        case .changedPassword(let id, let password): try await write(password: password, of: id, audit)
        case .revokedToken(let id, _, _):
            _ = try await changed("token", try await store.revoke(token: id, audit))
        case .revokedInvitation(let id, _):
            _ = try await written("invitation", try await store.revoke(invitation: id, audit))
        }
    }

    private func write(
        password: StoredPassword?, of user: UserID, _ audit: AuditRecord
    ) async throws(GatewayError) {
        var update = UserUpdate()
        update.password = .some(password)
        try await write(update, of: user, audit)
    }

    private func write(_ update: UserUpdate, of user: UserID, _ audit: AuditRecord) async throws(GatewayError) {
        _ = try await changed("user", try await store.update(user: user, update, audit))
    }

    // MARK: - Reading

    /// Refuses a device whose access has ended, even if the store still permits the access.
    func checkEnds(_ found: DeviceOfUser) throws(GatewayError) {
        let ends = ends.withLock { $0 }
        guard !ends.removes(found.device.id), !ends.contains(.removedUser(found.user.id)) else { throw .deviceUnknown }
        guard !ends.denials.users.contains(found.user.id) else { throw .userDisabled }
        guard !ends.denials.devices.contains(found.device.id) else { throw .deviceDisabled }
    }

    /// The device with the ends of access that are in effect but not saved.
    func inEffect(_ device: Device) -> Device {
        guard denials.devices.contains(device.id) else { return device }
        var device = device
        (device.isEnabled, device.isSaved) = (false, false)
        return device
    }

    /// The user with the ends of access that are in effect but not saved.
    func inEffect(_ user: User) -> User {
        let ends = ends.withLock { $0 }
        var user = user
        if ends.denials.users.contains(user.id) { (user.isEnabled, user.isSaved) = (false, false) }
        if ends.denials.passwords.contains(user.id) {
            (user.password, user.isSaved) = (ends.password(of: user.id), false)
        }
        return user
    }

    /// The token, revoked if a revocation is in effect but not saved.
    func inEffect(_ token: Token) -> Token {
        guard let time = revocation(of: token.hash) else { return token }
        var token = token
        (token.revokedAt, token.isSaved) = (token.revokedAt ?? time, false)
        return token
    }

    /// The invitation, revoked if a revocation is in effect but not saved.
    func inEffect(_ invitation: IssuedInvitation) -> IssuedInvitation {
        guard let time = revocation(of: invitation.hash) else { return invitation }
        var invitation = invitation
        (invitation.revokedAt, invitation.isSaved) = (invitation.revokedAt ?? time, false)
        return invitation
    }

    /// The time at which a token or an invitation was revoked, if the store does not have the revocation yet.
    func revocation(of secret: SecretHash) -> Date? { ends.withLock { $0.revocation(of: secret) } }

    // MARK: - A store that refuses writes

    /// Runs a write operation of the store. `/ready` reports a failure.
    func written<Result>(
        _ subject: String, _ operation: @autoclosure () async throws(StoreError) -> Result
    ) async throws(GatewayError) -> Result {
        do throws(GatewayError) { return try await stored(subject, try await operation()) } catch {
            if case .unavailable(let reason) = error {
                let now = now
                ends.withLock { $0.setRefusal(reason, at: now) }
            }
            throw error
        }
    }

    /// Reports a store that cannot be written until the next start.
    func reportReadOnly() {
        let (now, reason) = (now, StoreError.readOnlyReason)
        ends.withLock { $0.setRefusal(reason, at: now) }
        logger.error(
            """
            the database refuses writes: \(reason); devices are served as the database has them, without the ends of \
            access that were not saved before this start
            """)
    }

    /// Logs an error that may be frequent. Each text is logged at most once a minute.
    package func logFailure(_ text: String) {
        let time = nanoseconds
        if state.withLock({ $0.failures.allows(text, at: time) }) { logger.error("\(text)") }
    }

    /// The ends of access that are in effect but not saved, and a database that refuses writes. Devices are still
    /// served.
    package var unsaved: [NetworkProblem] {
        let ends = ends.withLock { $0 }
        var problems: [NetworkProblem] = []
        if let refusal = ends.refusal {
            problems.append(
                NetworkProblem(
                    what: "the database refuses writes: \(refusal.reason)", since: refusal.since.timeIntervalSince1970))
        }
        for entry in ends.entries where entry.isRefused {
            problems.append(
                NetworkProblem(
                    what: "\(entry.end.text): in effect but not saved; a restart would undo it",
                    since: entry.audit.at.timeIntervalSince1970))
        }
        return problems
    }

    /// The metrics of ``unsaved``.
    package var unsavedFamilies: [MetricFamily] {
        let ends = ends.withLock { $0 }
        return [
            MetricFamily(
                "culvert_gateway_unsaved_ends", .gauge,
                "Revocations and disablings that are in effect but not in the database yet",
                ends.entries.count(where: \.isRefused)),
            MetricFamily(
                "culvert_gateway_database_refuses_writes_since_timestamp_seconds", .gauge,
                "Time since which the database has refused writes, in seconds since 1970; absent if it accepts writes",
                ends.refusal.map { [.init($0.since.timeIntervalSince1970, labels: [])] } ?? []),
        ]
    }

    /// Tries a last time to save the ends of access and the misuses of invitations, within the limit. Logs those that
    /// are not saved.
    /// - Parameter limit: The longest wait for a database that does not answer.
    /// - Returns: Whether the database has answered.
    @discardableResult
    package func finish(within limit: Duration = .seconds(6)) async -> Bool {
        let end = nanoseconds + Int64(limit / .nanoseconds(1))
        let isAnswered = await isDone(within: limit) { [self] in
            // Wait for the writes of earlier requests.
            await endings.run {}
            await saveEnds(until: end)
            await recordMisuses(olderThan: .zero)
        }
        if !isAnswered { logger.error("the database has not answered within \(limit); stopping without it") }
        let lost = ends.withLock { $0.entries.map(\.end.text) }
        for text in lost { logger.critical("not saved, will be undone by the next start: \(text)") }
        let misused = state.withLock { $0.misuses.keys.count }
        if misused > 0 { logger.error("not saved: misuses of \(misused) invitations") }
        return isAnswered
    }
}
