// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A part of a tunnel's network that is not in effect.
public struct NetworkProblem: Hashable, Sendable, Codable {
    /// The part and the reason, as text for users.
    public var what: String
    /// The time when the problem was found, in seconds since 1970.
    public var since: Double

    /// A problem.
    public init(what: String, since: Double) {
        self.what = what
        self.since = since
    }
}

/// The parts of a tunnel's network that are not in effect, in the order in which they were found.
package struct NetworkProblems: Sendable {
    private var entries: [(part: String, problem: NetworkProblem)] = []

    package init() {}

    /// All problems.
    package var list: [NetworkProblem] { entries.map(\.problem) }

    /// The changes between two checks.
    package struct Difference {
        /// The problems that are new.
        package var new: [NetworkProblem] = []
        /// The parts that are in effect again.
        package var solved: [String] = []
    }

    /// Replaces the problems with the results of a check. A problem that is already known keeps its time.
    /// - Parameters:
    ///   - found: The parts that are not in effect, each with its problem.
    ///   - isComplete: `false` while the check is in progress. Then a problem that the check has not found yet stays.
    ///   - now: The time, in seconds since 1970.
    package mutating func update(
        _ found: [(part: String, what: String)], isComplete: Bool = true, now: Double
    ) -> Difference {
        var difference = Difference()
        let parts = Set(found.map(\.part))
        let others = entries.filter { !parts.contains($0.part) }
        if isComplete { difference.solved = others.map(\.part) }
        let times = Dictionary(
            entries.map { ($0.part, $0.problem.since) }, uniquingKeysWith: { first, _ in first })
        var seen: Set<String> = []
        entries = found.filter { seen.insert($0.part).inserted }
            .map { part, what in (part, NetworkProblem(what: what, since: times[part] ?? now)) }
        if !isComplete { entries += others }
        difference.new = entries.filter { times[$0.part] == nil }.map(\.problem)
        return difference
    }
}
