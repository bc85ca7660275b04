// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The sessions of the login tunnel, each with its device. A value without side effects.
struct RuntimeLogins<ID: Hashable & Sendable>: Sendable {
    struct Session: Sendable {
        let device: DeviceID
        /// The stored password that the session's password was compared with.
        let password: StoredPassword
        /// The number of the session. Later sessions have higher numbers.
        let number: Int
        /// The time of its beginning, or of the password check before the ticket that it began with, in nanoseconds.
        let since: Int64
        /// The random number in the session's tickets.
        let ticketNumber: UInt64
        /// Whether another session has replaced this one, whose end has not been reported yet.
        var isLeaving = false
    }

    private(set) var sessions: [ID: Session] = [:]
    private var lastNumber = 0

    /// Devices that have a session, the oldest session first.
    var busy: [DeviceID] {
        sessions.values.filter { !$0.isLeaving }.sorted { $0.number < $1.number }.map(\.device)
    }

    /// The number of sessions that no other session has replaced.
    var count: Int { sessions.values.count { !$0.isLeaving } }

    /// Begins a session.
    /// - Returns: The sessions that must end because the new session has their device.
    mutating func begin(
        _ id: ID, _ device: DeviceID, _ password: StoredPassword, at now: Int64 = 0, ticketNumber: UInt64 = 0
    ) -> [ID] {
        let former = sessions.filter { $0.value.device == device && $0.key != id }.map(\.key)
        for other in former { sessions[other]?.isLeaving = true }
        lastNumber += 1
        sessions[id] = Session(
            device: device, password: password, number: lastNumber, since: now, ticketNumber: ticketNumber)
        return former
    }

    /// Whether the device's current session issued the tickets with this number.
    func isCurrent(_ ticketNumber: UInt64, of device: DeviceID) -> Bool {
        sessions.values.contains {
            $0.device == device && !$0.isLeaving && $0.ticketNumber == ticketNumber
        }
    }

    /// The sessions that began before a time, except those that another session has replaced.
    func began(before time: Int64) -> [ID] {
        sessions.filter { !$0.value.isLeaving && $0.value.since < time }.map(\.key)
    }

    /// Removes an ended session, and returns it.
    mutating func end(_ id: ID) -> Session? { sessions.removeValue(forKey: id) }

    /// The sessions that must end, because another session has their device or the device no longer accepts their
    /// password. Call this repeatedly: a request to end a session has no effect before the client has received the
    /// answer to its login.
    /// - Parameter password: Returns the password with which a session of a device must have begun; `nil` if the device
    ///   must not have a session.
    func over(_ password: (DeviceID) -> StoredPassword?) -> [ID] {
        sessions.filter { $0.value.isLeaving || password($0.value.device) != $0.value.password }.map(\.key)
    }
}
