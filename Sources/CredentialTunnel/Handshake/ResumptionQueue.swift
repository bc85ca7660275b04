// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// The logins with a valid ticket that wait for the driver, the oldest first, and those that the driver resumes. A value
/// without a clock.
///
/// Only a client whose login was accepted before has a ticket, and no password is hashed for it. Unlike ``LoginQueue``,
/// this queue therefore has room for all clients of a restarted server.
struct ResumptionQueue {
    private let limits: ServerLimits
    /// The waiting logins from ``head`` on. A login that was taken out of turn leaves a gap.
    private var waiting: [LoginQueue.Login?] = []
    private var head = 0
    private var waitingCount = 0
    private var countsByName: [String: Int] = [:]
    private var resuming: [ClientID: LoginQueue.Login] = [:]

    init(_ limits: ServerLimits) { self.limits = limits }

    /// The number of logins without a verdict.
    var count: Int { waitingCount + resuming.count }
    /// The names of the logins that the driver resumes.
    var names: Set<String> { Set(resuming.values.map(\.request.login)) }

    /// Adds a login. Returns `false` if there is no place for it.
    mutating func add(_ login: LoginQueue.Login) -> Bool {
        let ofName = countsByName[login.request.login, default: 0]
        guard waitingCount < limits.resumptions, ofName < limits.knownVerifications else { return false }
        waiting.append(login)
        waitingCount += 1
        countsByName[login.request.login] = ofName + 1
        return true
    }

    /// Removes the oldest logins if their clients have timed out, and returns these clients.
    mutating func removeExpired(at now: Instant) -> [ClientID] {
        var expired: [ClientID] = []
        while let oldest = first, oldest.deadline <= now {
            expired.append(oldest.client)
            remove(at: head)
        }
        return expired
    }

    /// Returns the login that the driver resumes next, or `nil` if none waits or the driver is busy.
    /// - Parameter names: The logins that must wait, since the driver verifies their names already.
    mutating func next(besides names: Set<String>) -> LoginQueue.Login? {
        guard resuming.count < limits.resumers else { return nil }
        let busy = names.union(self.names)
        var index = head
        while index < waiting.count {
            if let login = waiting[index], !busy.contains(login.request.login) {
                remove(at: index)
                resuming[login.client] = login
                return login
            }
            index += 1
        }
        return nil
    }

    /// Records that a login has its verdict, and returns it; `nil` if the driver was not resuming it.
    mutating func finish(_ client: ClientID) -> LoginQueue.Login? { resuming.removeValue(forKey: client) }

    private var first: LoginQueue.Login? { head < waiting.count ? waiting[head] : nil }

    private mutating func remove(at index: Int) {
        guard let login = waiting[index] else { return }
        waiting[index] = nil
        waitingCount -= 1
        let left = countsByName[login.request.login, default: 1] - 1
        countsByName[login.request.login] = left > 0 ? left : nil
        while head < waiting.count, waiting[head] == nil { head += 1 }
        if head > 64, head > waiting.count / 2 {
            waiting.removeFirst(head)
            head = 0
        }
    }
}
