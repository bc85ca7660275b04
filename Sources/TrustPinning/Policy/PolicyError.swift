// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A problem of a policy, and its place.
public struct PolicyProblem: Sendable, Hashable, CustomStringConvertible {
    /// The place: names and indices as in JSON, such as `hosts[2].pins[0].hash`. Empty for the whole policy.
    public let path: String
    /// The problem and its remedy.
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

/// All problems of a policy. None of the policy was applied.
public struct PolicyError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The problems, in the order of the policy. Never empty.
    public let problems: [PolicyProblem]

    package init(_ problems: [PolicyProblem]) { self.problems = problems }

    /// The problems, one on each line.
    public var description: String { problems.map(\.description).joined(separator: "\n") }
}
