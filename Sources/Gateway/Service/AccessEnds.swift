// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnelLinux

/// The devices, users and passwords that are denied, even if the store still admits them.
package struct AccessDenials: Hashable, Sendable {
    package var devices: Set<DeviceID> = []
    package var users: Set<UserID> = []
    /// The users whose password in the store is denied.
    package var passwords: Set<UserID> = []

    package init() {}

    package mutating func formUnion(_ other: AccessDenials) {
        devices.formUnion(other.devices)
        users.formUnion(other.users)
        passwords.formUnion(other.passwords)
    }
}

/// An end of access that an administrator or a device has requested.
enum AccessEnd: Hashable, Sendable {
    /// The device is removed. If the user is not `nil`, only a device of this user.
    case removedDevice(DeviceID, of: UserID?)
    case removedUser(UserID)
    case disabledDevice(DeviceID)
    case disabledUser(UserID)
    case removedPassword(UserID)
    /// The user gets another password.
    case changedPassword(UserID, StoredPassword)
    /// The token is revoked, and the device of its slot is removed.
    case revokedToken(TokenID, SecretHash, slot: DeviceID?)
    case revokedInvitation(InvitationID, SecretHash)

    /// The description for `/ready` and the log.
    var text: String {
        switch self {
        case .removedDevice(let id, _): "device \(id) is revoked"
        case .removedUser(let id): "user \(id) is removed"
        case .disabledDevice(let id): "device \(id) is disabled"
        case .disabledUser(let id): "user \(id) is disabled"
        case .removedPassword(let id): "the password of user \(id) is removed"
        case .changedPassword(let id, _): "the password of user \(id) is changed"
        case .revokedToken(let id, _, _): "token \(id) is revoked"
        case .revokedInvitation(let id, _): "invitation \(id) is revoked"
        }
    }

    /// The user whose password this end denies; `nil` for ends of other kinds.
    fileprivate var passwordOwner: UserID? {
        switch self {
        case .removedPassword(let id), .changedPassword(let id, _): id
        default: nil
        }
    }
}

/// The ends of access that are in effect but that the store has not saved yet. A value without side effects.
struct AccessEnds: Sendable {
    struct Entry: Sendable {
        let end: AccessEnd
        let audit: AuditRecord
        /// Whether the store has refused this entry, so that `/ready` reports it as not saved.
        var isRefused = false

        /// Whether this entry ends a user's password, and `other` is a later end of the same user's password. The store
        /// receives the ends in the order of the requests, so an entry that the store has not refused yet is later.
        fileprivate func isReplaced(by other: AccessEnd) -> Bool {
            guard let owner = other.passwordOwner else { return false }
            return isRefused && end != other && end.passwordOwner == owner
        }
    }

    /// The entries in the order of the requests, except that the store's latest refusal is last.
    private(set) var entries: [Entry] = []
    private(set) var denials = AccessDenials()
    /// The time and reason of the first refusal since the store accepted a write.
    private(set) var refusal: (since: Date, reason: String)?

    /// - Returns: `false` if the end exists already.
    @discardableResult
    mutating func add(_ end: AccessEnd, _ audit: AuditRecord) -> Bool {
        guard !contains(end) else { return false }
        entries.append(Entry(end: end, audit: audit))
        update()
        return true
    }

    mutating func remove(_ end: AccessEnd) {
        entries.removeAll { $0.end == end || $0.isReplaced(by: end) }
        update()
    }

    /// Marks an end as refused, and moves it to the end of the queue, so that the next sweep tries other ends first.
    mutating func markRefused(_ end: AccessEnd) {
        guard let index = entries.firstIndex(where: { $0.end == end }) else { return }
        var entry = entries.remove(at: index)
        entry.isRefused = true
        entries.removeAll { $0.isReplaced(by: end) }
        entries.append(entry)
        update()
    }

    mutating func setRefusal(_ reason: String?, at now: Date) { refusal = reason.map { (refusal?.since ?? now, $0) } }

    func contains(_ end: AccessEnd) -> Bool { entries.contains { $0.end == end } }

    func removes(_ device: DeviceID) -> Bool {
        entries.contains { if case .removedDevice(device, _) = $0.end { true } else { false } }
    }

    /// The password of a user whose password in the store is denied; `nil` if the user has none.
    func password(of user: UserID) -> StoredPassword? {
        for entry in entries.reversed() {
            switch entry.end {
            case .removedPassword(user): return nil
            case .changedPassword(user, let password): return password
            default: continue
            }
        }
        return nil
    }

    /// The time of the revocation of a token or an invitation.
    func revocation(of secret: SecretHash) -> Date? {
        for entry in entries {
            switch entry.end {
            case .revokedToken(_, secret, _), .revokedInvitation(_, secret): return entry.audit.at
            default: continue
            }
        }
        return nil
    }

    private mutating func update() {
        denials = AccessDenials()
        for entry in entries {
            switch entry.end {
            case .removedDevice(let id, _), .disabledDevice(let id): denials.devices.insert(id)
            case .removedUser(let id), .disabledUser(let id): denials.users.insert(id)
            case .removedPassword(let id), .changedPassword(let id, _): denials.passwords.insert(id)
            case .revokedToken(_, _, let slot): if let slot { denials.devices.insert(slot) }
            case .revokedInvitation: break
            }
        }
    }
}
