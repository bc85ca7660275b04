// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error in one field of ``TunnelSettings``.
public struct SettingsProblem: Codable, Hashable, Sendable, CustomStringConvertible {
    /// The path of the field, such as `dns.servers[1]`.
    public var field: String
    /// Its value.
    public var value: String
    /// The error, as a clause.
    public var problem: String
    /// The remedy.
    public var fix: String

    /// A problem.
    public init(field: String, value: String, problem: String, fix: String) {
        self.field = field
        self.value = value
        self.problem = problem
        self.fix = fix
    }

    /// Field, value, problem and fix in one line.
    public var description: String { "\(field) '\(value)' \(problem): \(fix)" }
}
