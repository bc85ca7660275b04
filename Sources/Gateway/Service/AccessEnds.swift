// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnelLinux
import Synchronization

/// The devices and users that are denied, while the store may still admit them.
package struct AccessDenials: Hashable, Sendable {
    package var devices: Set<DeviceID> = []
    package var users: Set<UserID> = []

    package init() {}

    package mutating func formUnion(_ other: AccessDenials) {
        devices.formUnion(other.devices)
        users.formUnion(other.users)
    }
}

/// An end of access that an administrator or a device has requested.
enum AccessEnd: Hashable, Sendable {
    /// The device is removed; only if it is this user's, unless that is `nil`.
    case removedDevice(DeviceID, of: UserID?)
    case removedUser(UserID)
    case disabledDevice(DeviceID)
    case disabledUser(UserID)

    /// The words for `/ready` and the log.
    var text: String {
        switch self {
        case .removedDevice(let id, _): "device \(id) is revoked"
        case .removedUser(let id): "user \(id) is removed"
        case .disabledDevice(let id): "device \(id) is disabled"
        case .disabledUser(let id): "user \(id) is disabled"
        }
    }
}

/// The ends of access that are in effect, and that the store does not have yet. A value without effects.
struct AccessEnds: Sendable {
    struct Entry: Sendable {
        let end: AccessEnd
        let audit: AuditRecord
        /// Whether the store has refused it, so that `/ready` names it as not saved.
        var isRefused = false
    }

    /// The entries in the order of the requests.
    private(set) var entries: [Entry] = []
    private(set) var denials = AccessDenials()
    /// The time and reason of the first refusal since the store accepted a write.
    private(set) var refusal: (since: Date, reason: String)?

    mutating func add(_ end: AccessEnd, _ audit: AuditRecord) {
        guard !contains(end) else { return }
        entries.append(Entry(end: end, audit: audit))
        update()
    }

    mutating func remove(_ end: AccessEnd) {
        entries.removeAll { $0.end == end }
        update()
    }

    mutating func markRefused(_ end: AccessEnd) {
        for index in entries.indices where entries[index].end == end { entries[index].isRefused = true }
    }

    mutating func setRefusal(_ reason: String?, at now: Date) { refusal = reason.map { (refusal?.since ?? now, $0) } }

    func contains(_ end: AccessEnd) -> Bool { entries.contains { $0.end == end } }

    func removes(_ device: DeviceID) -> Bool {
        entries.contains { if case .removedDevice(device, _) = $0.end { true } else { false } }
    }

    private mutating func update() {
        denials = AccessDenials()
        for entry in entries {
            switch entry.end {
            case .removedDevice(let id, _), .disabledDevice(let id): denials.devices.insert(id)
            case .removedUser(let id), .disabledUser(let id): denials.users.insert(id)
            }
        }
    }
}

/// Operations that run one after another, in the order of the calls. A cancelled caller does not end its operation.
final class SerialOperations: Sendable {
    private let last = Mutex<Task<Void, Never>?>(nil)

    func run<Result: Sendable>(_ operation: @escaping @Sendable () async -> Result) async -> Result {
        let task = last.withLock { last in
            let before = last
            let task = Task {
                await before?.value
                return await operation()
            }
            last = Task { _ = await task.value }
            return task
        }
        return await task.value
    }
}
