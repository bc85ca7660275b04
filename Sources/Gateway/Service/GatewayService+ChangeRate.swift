// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import Synchronization
import TunnelSystem
import WireGuardCore

/// A source of changes. The changes of one source share a rate limit.
enum ChangeSource: Hashable, Sendable {
    /// A device that changes itself, or a slot that a client changes.
    case device(DeviceID)
    /// The devices of a user, which can remove each other.
    case devices(UserID)
    /// An invitation that was already used.
    case invitation(SecretHash)
}

/// The misuses of an invitation that are counted in memory.
struct PendingMisuses: Sendable {
    var latest: Enrolment
    var count = 0
    /// The time of the first one, in nanoseconds.
    var since: Int64
    /// The time at which the store last refused them, in nanoseconds.
    var refusedAt = Int64.min
}

// A source may make two changes a second, with a burst of five, so that a client with a valid credential cannot fill
// the disk.

extension GatewayService {
    /// Counts a change against the rate of its source.
    /// - Throws: `.tooManyChanges` if the rate is exceeded. The caller must then write nothing.
    func checkRate(of source: ChangeSource) throws(GatewayError) {
        let time = Instant(nanoseconds: nanoseconds)
        guard state.withLock({ $0.changes.allow(source, at: time) }) else {
            logRateLimited("too many changes by \(source.text)")
            // The next change is possible within half a second.
            throw .tooManyChanges(retryAfterSeconds: 1)
        }
    }

    /// Records the misuse of an invitation. Misuses beyond the rate are counted in memory. They are recorded with a
    /// later one, a minute after the first of them (``sweep(busy:_:)``), or at the end of the process.
    /// - Parameter isLimited: Whether the source of the request must wait because it has too many failures.
    func recordMisuse(_ enrolment: Enrolment, isLimited: Bool) async {
        guard case .invitation(let hash) = enrolment.secret else { return }
        let time = nanoseconds
        let due = state.withLock { state -> PendingMisuses? in
            var pending = state.misuses[hash] ?? PendingMisuses(latest: enrolment, since: time)
            (pending.latest, pending.count) = (enrolment, pending.count + 1)
            let isDue = !isLimited && state.changes.allow(.invitation(hash), at: Instant(nanoseconds: time))
            state.misuses[hash] = isDue ? nil : pending
            return isDue ? pending : nil
        }
        if let due { _ = await write(due, of: hash) }
    }

    /// Records the misuses that are counted in memory.
    /// - Parameter age: The time since the first misuse of an invitation. Younger ones are left for a later call.
    func recordMisuses(olderThan age: Duration) async {
        let latest = nanoseconds - age.components.seconds * 1_000_000_000
        let due = state.withLock { state in
            state.misuses.keys.compactMap { hash in state.misuses[hash].map { (hash, $0) } }
                .filter { $0.1.since <= latest }
        }
        // Start with the misuses that the store has not refused recently, so that one that always fails does not delay
        // the others.
        for (hash, _) in due.sorted(by: { $0.1.refusedAt < $1.1.refusedAt }) {
            let pending = state.withLock { state in
                defer { state.misuses[hash] = nil }
                return state.misuses[hash]
            }
            // Stop after a refusal, because the store will probably refuse the rest too.
            if let pending, await !write(pending, of: hash) { return }
        }
    }

    /// - Returns: `false` if the store has refused the write. The misuses are then counted in memory again.
    private func write(_ pending: PendingMisuses, of hash: SecretHash) async -> Bool {
        var misuse = pending.latest
        misuse.misuses = pending.count
        let counted = misuse
        do throws(GatewayError) {
            _ = try await written("device", try await store.enrol(counted))
            return true
        } catch {
            // The failure was already logged, and the request is refused in any case.
            let time = nanoseconds
            state.withLock { state in
                var later = state.misuses[hash] ?? pending
                if state.misuses[hash] != nil { later.count += pending.count }
                (later.since, later.refusedAt) = (pending.since, time)
                state.misuses[hash] = later
            }
            return false
        }
    }
}

extension ChangeSource {
    /// The text for the log.
    fileprivate var text: String {
        switch self {
        case .device(let id): "device \(id)"
        case .devices(let id): "devices of user \(id)"
        case .invitation: "an invitation"
        }
    }
}
