// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The sessions of the login tunnel, each with its device. A value without side effects.
struct RuntimeLogins<ID: Hashable & Sendable>: Sendable {
    struct Session: Sendable {
        let device: DeviceID
        /// The stored password that the session's password was compared with.
        let password: StoredPassword
        /// The time of its beginning, or of the password check before the ticket that it began with, in nanoseconds.
        let since: Int64
        /// The random number in the session's tickets.
        let ticketNumber: UInt64
        /// Whether another session has replaced this one, whose end has not been reported yet.
        var isLeaving = false
    }

    private(set) var sessions: [ID: Session] = [:]
    /// The sessions of each device: the current one, and those that are leaving.
    private var sessionsByDevice: [DeviceID: [ID]] = [:]
    /// Devices that have a session, the oldest session first. Each login reads this list, so it is not computed then.
    private(set) var busy: [DeviceID] = []

    /// The number of sessions that no other session has replaced.
    var count: Int { busy.count }

    /// Begins a session.
    /// - Parameter id: The ID of the session, which no other session has had.
    /// - Returns: The sessions that must end because the new session has their device.
    mutating func begin(
        _ id: ID, _ device: DeviceID, _ password: StoredPassword, at now: Int64 = 0, ticketNumber: UInt64 = 0
    ) -> [ID] {
        let former = sessionsByDevice[device] ?? []
        for other in former { markLeaving(other) }
        sessions[id] = Session(device: device, password: password, since: now, ticketNumber: ticketNumber)
        sessionsByDevice[device, default: []].append(id)
        busy.append(device)
        return former
    }

    private mutating func markLeaving(_ id: ID) {
        guard let session = sessions[id], !session.isLeaving else { return }
        sessions[id]?.isLeaving = true
        if let index = busy.firstIndex(of: session.device) { busy.remove(at: index) }
    }

    /// Whether the device's current session issued the tickets with this number.
    func isCurrent(_ ticketNumber: UInt64, of device: DeviceID) -> Bool {
        (sessionsByDevice[device] ?? []).contains { id in
            sessions[id].map { !$0.isLeaving && $0.ticketNumber == ticketNumber } == true
        }
    }

    /// The sessions that began before a time, except those that another session has replaced.
    func began(before time: Int64) -> [ID] {
        sessions.filter { !$0.value.isLeaving && $0.value.since < time }.map(\.key)
    }

    /// Removes an ended session, and returns it.
    mutating func end(_ id: ID) -> Session? {
        guard let session = sessions[id] else { return nil }
        markLeaving(id)
        sessions[id] = nil
        let others = (sessionsByDevice[session.device] ?? []).filter { $0 != id }
        sessionsByDevice[session.device] = others.isEmpty ? nil : others
        return session
    }

    /// The sessions that must end, because another session has their device or the device no longer accepts their
    /// password. Call this repeatedly: a request to end a session has no effect before the client has received the
    /// answer to its login.
    /// - Parameter password: Returns the password with which a session of a device must have begun; `nil` if the device
    ///   must not have a session.
    func over(_ password: (DeviceID) -> StoredPassword?) -> [ID] {
        sessions.filter { $0.value.isLeaving || password($0.value.device) != $0.value.password }.map(\.key)
    }
}
