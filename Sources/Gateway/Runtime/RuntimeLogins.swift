// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The sessions of the login tunnel, and which devices they have. A value: it does nothing itself.
struct RuntimeLogins<ID: Hashable & Sendable>: Sendable {
    struct Session: Sendable {
        let device: DeviceID
        /// The stored password that the session's password was compared with.
        let password: StoredPassword
        /// Later sessions have higher ones.
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

    /// How many sessions there are.
    var count: Int { sessions.values.count { !$0.isLeaving } }

    /// Begins a session.
    /// - Returns: those that end since it has their device.
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

    /// The sessions that began before a time, and do not end for another reason.
    func began(before time: Int64) -> [ID] {
        sessions.filter { !$0.value.isLeaving && $0.value.since < time }.map(\.key)
    }

    /// Forgets a session that is over.
    mutating func end(_ id: ID) -> Session? { sessions.removeValue(forKey: id) }

    /// The sessions that must end: another session has their device, or the device no longer accepts their password. Call
    /// this repeatedly: a session that is asked to end before its client has its answer has not begun yet, and does not
    /// receive the request.
    /// - Parameter password: the password that a session of a device must have been started with; `nil` for none.
    func over(_ password: (DeviceID) -> StoredPassword?) -> [ID] {
        sessions.filter { $0.value.isLeaving || password($0.value.device) != $0.value.password }.map(\.key)
    }
}
