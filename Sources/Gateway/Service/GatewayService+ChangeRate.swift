// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import Synchronization
import TunnelSystem
import WireGuardCore

/// The origin of changes that are limited together.
enum ChangeSource: Hashable, Sendable {
    /// A device that changes itself, or a slot that a client changes.
    case device(DeviceID)
    /// The devices of a user, which remove each other.
    case devices(UserID)
    /// An invitation that was used already.
    case invitation(SecretHash)
}

// A source may make two changes a second, with a burst of five, so that no valid credential can fill the disk.

extension GatewayService {
    /// Takes a token for a change.
    /// - Throws: `.tooManyChanges` if the source has no token left. The caller must write nothing then.
    func checkRate(of source: ChangeSource) throws(GatewayError) {
        let time = Instant(nanoseconds: nanoseconds)
        guard state.withLock({ $0.changes.allow(source, at: time) }) else {
            say("too many changes by \(source.text)")
            // The next token comes within half a second.
            throw .tooManyChanges(retryAfterSeconds: 1)
        }
    }

    /// Records the misuse of an invitation. Misuses beyond the rate are counted in memory, and recorded with a later one.
    /// - Parameter isLimited: Whether the source of the request has to wait.
    func recordMisuse(_ enrolment: Enrolment, isLimited: Bool) async {
        guard case .invitation(let hash) = enrolment.secret else { return }
        let time = Instant(nanoseconds: nanoseconds)
        let count = state.withLock { state in
            let count = (state.misuses[hash] ?? 0) + 1
            let isRecorded = !isLimited && state.changes.allow(.invitation(hash), at: time)
            state.misuses[hash] = isRecorded ? nil : count
            return isRecorded ? count : 0
        }
        guard count > 0 else { return }
        var misuse = enrolment
        misuse.misuses = count
        do throws(GatewayError) {
            let counted = misuse
            _ = try await stored("device") { () throws(StoreError) in try await store.enrol(counted) }
        } catch {
            // The store has logged its failure. The request is refused either way.
            state.withLock { $0.misuses[hash] = ($0.misuses[hash] ?? 0) + count }
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
