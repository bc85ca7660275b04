// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What is wrong with a text of the enrolment API, or with an invitation. It repeats no secret.
public struct ContractError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The field, as in `servers[0].publicKey`; `body` for the whole.
    public var field: String
    /// What is wrong with it.
    public var problem: String

    /// An error.
    public init(field: String, problem: String) {
        self.field = field
        self.problem = problem
    }

    /// The field and the problem.
    public var description: String { "'\(field)': \(problem)" }
}
