// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

extension JSON {
    /// The maximum nesting depth of a value of a policy or an envelope.
    static let policyDepth = 16
    /// The maximum length of the text of policies or of an envelope, in bytes.
    static let policySize = 1 << 20

    /// Reads the text of policies or of an envelope. In addition to the rules of ``TunnelSystem/JSON``, numbers must be
    /// integers: JSON readers round fractions differently, and an envelope is signed.
    package static func read(policy text: [UInt8]) throws(PolicyError) -> JSON {
        func error(_ reason: String) -> PolicyError { PolicyError([PolicyProblem("", reason)]) }
        guard text.count <= policySize else { throw error("the text must not exceed 1 MiB") }
        guard !text.isEmpty else { throw error("the text is empty: JSON was expected") }
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
        // This case occurs only for property lists, because the JSON reader refuses fractions.
        case .number: "a fraction or data"
        case .string: "text"
        case .array: "a list"
        case .object: "a dictionary"
        }
    }
}

/// Reads the members of a dictionary, and collects all problems instead of stopping at the first.
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

    mutating func addProblem(_ path: String, _ reason: String) { problems.append(PolicyProblem(path, reason)) }

    mutating func addProblem(_ problem: PolicyProblem) { problems.append(problem) }

    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func removeField(_ name: String) -> JSON? { members.removeValue(forKey: name) }

    /// Removes a field and converts its value. Returns `nil` if the field is missing, and also if the conversion fails,
    /// which adds a problem.
    private mutating func removeField<Value>(
        _ name: String, _ expected: String, _ read: (JSON) -> Value?
    ) -> Value? {
        guard let value = removeField(name) else { return nil }
        if let read = read(value) { return read }
        addProblem(name, "\(expected) was expected, not \(value.kind)")
        return nil
    }

    mutating func boolean(_ name: String, default value: Bool) -> Bool {
        removeField(name, "true or false") { $0.flag } ?? value
    }

    mutating func text(_ name: String) -> String? {
        removeField(name, "text") { $0.string }
    }

    mutating func integer(_ name: String) -> Int64? {
        removeField(name, "a number") { if case .integer(let number) = $0 { number } else { nil } }
    }

    /// Checks the version of the format, which must be 1.
    mutating func version(_ name: String = "version") {
        switch removeField(name) {
        case .integer(1): return
        case .integer(let number): addProblem(name, "must be 1, not \(number)")
        case nil: addProblem(name, "is missing: must be 1")
        case let other?: addProblem(name, "must be the number 1, not \(other.kind)")
        }
    }

    mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, default value: Choice
    ) -> Choice {
        guard let text = text(name) else { return value }
        guard let choice = Choice(rawValue: text) else {
            addProblem(
                name, "one of \(Choice.allCases.map(\.rawValue).joined(separator: ", ")) was expected, not \(text)")
            return value
        }
        return choice
    }

    mutating func array(_ name: String) -> [JSON]? {
        removeField(name, "a list") { $0.list }
    }

    /// Reads a time: a date, or text such as `2027-01-31` (the beginning of that day, UTC) or `2027-01-31T12:00:00Z`.
    mutating func date(_ name: String) -> Date? {
        switch removeField(name) {
        case nil: return nil
        case .string(let text):
            if let seconds = Timestamp.parse(text) { return Date(timeIntervalSince1970: Double(seconds)) }
            addProblem(name, "a date was expected, as 2027-01-31 or 2027-01-31T12:00:00Z, not \(text)")
            return nil
        case let other?:
            addProblem(name, "a date was expected, not \(other.kind)")
            return nil
        }
    }

    /// Adds a problem for each remaining member. Otherwise, a member with a misspelt name would silently have its
    /// default.
    mutating func end() {
        for name in members.keys.sorted() { addProblem(name, "is not a known name") }
        members = [:]
    }
}

/// Times in the text form of RFC 3339, in UTC, in whole seconds.
package enum Timestamp {
    /// Returns the seconds since 1970 of `2027-01-31` or `2027-01-31T12:00:00Z`, or `nil` for other forms or invalid
    /// times.
    package static func parse(_ text: String) -> Int64? {
        let whole = text.utf8.count == 10 ? text + "T00:00:00Z" : text
        // The parser also accepts other forms, and replaces invalid days by later ones. Formatting the date again
        // detects both.
        guard let date = try? Date(whole, strategy: .iso8601), self.text(date) == whole else { return nil }
        return Int64(date.timeIntervalSince1970)
    }

    /// Returns the text of seconds since 1970. Times outside of the years 0 to 9999 are clamped.
    package static func text(_ seconds: Int64) -> String {
        let bounded = min(max(seconds, -62_167_219_200), 253_402_300_799)
        return Date(timeIntervalSince1970: Double(bounded)).formatted(.iso8601)
    }

    package static func text(_ date: Date) -> String {
        text(Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? (date < .distantPast ? .min : .max))
    }
}
