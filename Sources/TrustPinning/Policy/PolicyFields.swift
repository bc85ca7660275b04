// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

extension JSON {
    /// The greatest number of lists and dictionaries around a value of a policy or an envelope.
    static let policyDepth = 16
    /// The greatest length of the text of policies or of an envelope, in bytes.
    static let policySize = 1 << 20

    /// Reads the text of policies or of an envelope. In addition to the rules of ``TunnelSystem/JSON``, numbers must be whole: readers
    /// differ in how they round fractions, and an envelope is signed.
    package static func read(policy text: [UInt8]) throws(PolicyError) -> JSON {
        func error(_ reason: String) -> PolicyError { PolicyError([PolicyProblem("", reason)]) }
        guard text.count <= policySize else { throw error("the text has more than 1 MiB") }
        guard !text.isEmpty else { throw error("there is no text: JSON was expected") }
        do throws(JSONError) {
            return try read(text, depth: policyDepth, isWhole: true)
        } catch {
            throw PolicyError([PolicyProblem("", "not JSON: \(error.problem), at byte \(error.position)")])
        }
    }

    fileprivate var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .integer: "a number"
        // Of property lists only: the reader refuses fractions.
        case .number: "a fraction or data"
        case .string: "text"
        case .array: "a list"
        case .object: "a dictionary"
        }
    }
}

/// Takes a dictionary apart, and notes everything that is wrong with it instead of stopping at the first problem.
struct PolicyFields {
    private var members: [String: JSON]
    private(set) var problems: [PolicyProblem] = []

    init?(_ value: JSON, at path: String, _ problems: inout [PolicyProblem]) {
        guard case .object(let members) = value else {
            problems.append(PolicyProblem(path, "a dictionary was expected, not \(value.kind)"))
            return nil
        }
        self.members = Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
    }

    mutating func note(_ path: String, _ reason: String) { problems.append(PolicyProblem(path, reason)) }

    mutating func note(_ problem: PolicyProblem) { problems.append(problem) }

    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func take(_ name: String) -> JSON? { members.removeValue(forKey: name) }

    /// What a value is read as; nil, with a note, if it is not that.
    private mutating func take<Value>(
        _ name: String, _ expected: String, _ read: (JSON) -> Value?
    ) -> Value? {
        guard let value = take(name) else { return nil }
        if let read = read(value) { return read }
        note(name, "\(expected) was expected, not \(value.kind)")
        return nil
    }

    mutating func boolean(_ name: String, default value: Bool) -> Bool {
        take(name, "true or false") { $0.flag } ?? value
    }

    mutating func text(_ name: String) -> String? {
        take(name, "text") { $0.string }
    }

    mutating func integer(_ name: String) -> Int64? {
        take(name, "a number") { if case .integer(let number) = $0 { number } else { nil } }
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

    mutating func array(_ name: String) -> [JSON]? {
        take(name, "a list") { $0.list }
    }

    /// A moment: a date, or text such as `2027-01-31` (the beginning of that day, UTC) or `2027-01-31T12:00:00Z`.
    mutating func date(_ name: String) -> Date? {
        switch take(name) {
        case nil: return nil
        case .string(let text):
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
        let whole = text.utf8.count == 10 ? text + "T00:00:00Z" : text
        // Other forms are read too, and days that do not exist as later ones: neither is written as it was read.
        guard let date = try? Date(whole, strategy: .iso8601), self.text(date) == whole else { return nil }
        return Int64(date.timeIntervalSince1970)
    }

    /// The text of seconds since 1970, for years 0 to 9999; times outside are brought to the nearest of those.
    package static func text(_ seconds: Int64) -> String {
        let bounded = min(max(seconds, -62_167_219_200), 253_402_300_799)
        return Date(timeIntervalSince1970: Double(bounded)).formatted(.iso8601)
    }

    package static func text(_ date: Date) -> String {
        text(Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? (date < .distantPast ? .min : .max))
    }
}
