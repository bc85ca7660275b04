// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Takes a dictionary apart, and notes everything that is wrong with it instead of stopping at the first problem.
struct PolicyFields {
    private var members: [String: PolicyValue]
    private(set) var problems: [PolicyProblem] = []

    init?(_ value: PolicyValue, at path: String, _ problems: inout [PolicyProblem]) {
        guard case .object(let members) = value else {
            problems.append(PolicyProblem(path, "a dictionary was expected, not \(value.kind)"))
            return nil
        }
        self.members = members
    }

    mutating func note(_ path: String, _ reason: String) { problems.append(PolicyProblem(path, reason)) }

    mutating func note(_ problem: PolicyProblem) { problems.append(problem) }

    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func take(_ name: String) -> PolicyValue? { members.removeValue(forKey: name) }

    mutating func boolean(_ name: String, default value: Bool) -> Bool {
        switch take(name) {
        case nil: return value
        case .boolean(let value): return value
        case let other?:
            note(name, "true or false was expected, not \(other.kind)")
            return value
        }
    }

    mutating func text(_ name: String) -> String? {
        switch take(name) {
        case nil: return nil
        case .text(let text): return text
        case let other?:
            note(name, "text was expected, not \(other.kind)")
            return nil
        }
    }

    mutating func integer(_ name: String) -> Int64? {
        switch take(name) {
        case nil: return nil
        case .integer(let number): return number
        case let other?:
            note(name, "a number was expected, not \(other.kind)")
            return nil
        }
    }

    /// The version of the form, of which there is one.
    mutating func version(_ name: String = "version") {
        switch take(name) {
        case .integer(1): return
        case .integer(let number): note(name, "this has to be 1, not \(number)")
        case nil: note(name, "is missing: this has to be 1")
        case let other?: note(name, "this has to be the number 1, not \(other.kind)")
        }
    }

    mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, default value: Choice
    ) -> Choice {
        guard let text = text(name) else { return value }
        guard let choice = Choice(rawValue: text) else {
            note(name, "one of \(Choice.allCases.map(\.rawValue).joined(separator: ", ")) was expected, not \(text)")
            return value
        }
        return choice
    }

    mutating func array(_ name: String) -> [PolicyValue]? {
        switch take(name) {
        case nil: return nil
        case .array(let elements): return elements
        case let other?:
            note(name, "a list was expected, not \(other.kind)")
            return nil
        }
    }

    /// A moment: a date, or text such as `2027-01-31` (the beginning of that day, UTC) or `2027-01-31T12:00:00Z`.
    mutating func date(_ name: String) -> Date? {
        switch take(name) {
        case nil: return nil
        case .date(let date): return date
        case .text(let text):
            if let seconds = Timestamp.parse(text) { return Date(timeIntervalSince1970: Double(seconds)) }
            note(name, "a date was expected, as 2027-01-31 or 2027-01-31T12:00:00Z, not \(text)")
            return nil
        case let other?:
            note(name, "a date was expected, not \(other.kind)")
            return nil
        }
    }

    /// What is left is a mistake: a misspelt name would otherwise silently mean its default.
    mutating func end() {
        for name in members.keys.sorted() { note(name, "there is no such name") }
        members = [:]
    }
}

/// Moments in the text of RFC 3339, in UTC and to the second.
package enum Timestamp {
    /// Seconds since 1970 of `2027-01-31` or `2027-01-31T12:00:00Z`; nil if it is neither, or no moment that exists.
    package static func parse(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ range: Range<Int>) -> Int? {
            var value = 0
            for byte in bytes[range] {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int(byte - 0x30)
            }
            return value
        }
        guard bytes.count == 10 || bytes.count == 20, bytes[4] == 0x2d, bytes[7] == 0x2d,
            let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
            let days = CivilDate(year: year, month: month, day: day)?.daysSince1970
        else { return nil }
        guard bytes.count == 20 else { return days * 86_400 }
        guard bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            bytes[19] == UInt8(ascii: "Z"), let hour = number(11..<13), let minute = number(14..<16),
            let second = number(17..<19), hour < 24, minute < 60, second < 60
        else { return nil }
        return days * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    /// The text of seconds since 1970, for years 0 to 9999; times outside are brought to the nearest of those.
    package static func text(_ seconds: Int64) -> String {
        let bounded = min(max(seconds, -62_167_219_200), 253_402_300_799)
        let days = bounded >= 0 ? bounded / 86_400 : (bounded - 86_399) / 86_400
        let rest = bounded - days * 86_400
        // Civil from days, counted in years that begin on 1 March.
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func pad(_ value: Int64, _ width: Int = 2) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return "\(pad(year, 4))-\(pad(month))-\(pad(day))T\(pad(rest / 3600)):\(pad(rest / 60 % 60)):\(pad(rest % 60))Z"
    }

    package static func text(_ date: Date) -> String {
        text(Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? (date < .distantPast ? .min : .max))
    }
}
