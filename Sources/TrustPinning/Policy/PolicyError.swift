// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One thing that is wrong with a policy, and where.
public struct PolicyProblem: Sendable, Hashable, CustomStringConvertible {
    /// Where it is: names and indices as in JSON, such as `hosts[2].pins[0].hash`. Empty for the whole.
    public let path: String
    /// What is wrong and what to do about it.
    public let reason: String

    package init(_ path: String, _ reason: String) {
        self.path = path
        self.reason = reason
    }

    /// The path and the reason.
    public var description: String { path.isEmpty ? reason : "\(path): \(reason)" }

    func below(_ parent: String) -> PolicyProblem {
        PolicyProblem(path.isEmpty ? parent : parent.isEmpty ? path : "\(parent).\(path)", reason)
    }
}

/// Everything that is wrong with a policy. Nothing of it was taken.
public struct PolicyError: Error, Sendable, Hashable, CustomStringConvertible {
    /// All problems, in the order of the policy. Never empty.
    public let problems: [PolicyProblem]

    package init(_ problems: [PolicyProblem]) { self.problems = problems }

    /// The problems, one on each line.
    public var description: String { problems.map(\.description).joined(separator: "\n") }
}
