// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension PhoneDay {
    /// An event of the phone.
    enum Happening: Hashable, Sendable {
        case wake
        case sleep(announced: Bool)
        case attach(Int?, announcedAfter: Duration)
        case announcePath
        case burst(Int)
        case setConditions(bad: Bool)
        case cut(Bool)
        case logIn
        case forgetMappings
        case serverDown
        case serverUp(restarted: Bool)
        case serverMoves
        case publish
        case mood(Int)
        case stop
        case start
        case retry
        case reconfigure
    }

    /// The results of a day.
    struct Figures: Sendable {
        var days = 0
        var awake: Duration = .zero
        /// The longest time from the last proof of the tunnel to the end of `connected`.
        var worstNotice: Duration = .zero
        /// The longest time from when all parts worked to `connected`.
        var worstHeal: Duration = .zero
        var outages = 0
        var starts = 0
        var sent = 0
        var echoed = 0
        var blocked = 0
        var datagrams = 0
        var jobs = 0
        var problems: [String] = []

        mutating func add(_ other: Figures) {
            days += other.days
            awake += other.awake
            worstNotice = max(worstNotice, other.worstNotice)
            worstHeal = max(worstHeal, other.worstHeal)
            outages += other.outages
            starts += other.starts
            sent += other.sent
            echoed += other.echoed
            blocked += other.blocked
            datagrams += other.datagrams
            jobs += other.jobs
            problems += other.problems
        }
    }
}

extension PhoneDay.Happening {
    /// Whether the event also occurs while the phone sleeps.
    var needsNoPhone: Bool {
        switch self {
        case .wake, .attach, .cut, .logIn, .forgetMappings, .serverDown, .serverUp, .serverMoves, .publish, .mood,
            .setConditions:
            true
        default: false
        }
    }

    /// Whether the event waits for the phone to wake up, instead of being dropped.
    var isKept: Bool {
        switch self {
        case .announcePath, .retry, .start: true
        default: false
        }
    }
}
