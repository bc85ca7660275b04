// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A row of a table of drop causes: the name in text and JSON, the counter, and a sentence for people.
///
/// Each type of statistics has a table, in the file of its counters. Status, metrics, logs and `docs/drop-causes.md`
/// list the rows of the tables, so a counter with a row is in all of them.
package typealias DropCause<Statistics, Count> = (
    name: String, counter: any KeyPath<Statistics, Count> & Sendable, summary: String
)

/// The packets and datagrams that a data path did not pass on, by cause. Each is counted once.
public struct DropCounters: Hashable, Sendable {
    /// The count of one cause.
    public struct Counter: Hashable, Sendable {
        /// The name of the cause in text and JSON, such as "no peer".
        public var cause: String
        /// The packets or datagrams that the cause applies to, as a sentence for people.
        public var summary: String
        /// The number of packets or datagrams.
        public var count: UInt64
    }

    /// The counters of all causes, in a fixed order.
    public private(set) var counters: [Counter] = []

    /// Counters of no cause.
    public init() {}

    /// Adds a counter for each row of a table.
    package mutating func add<Statistics, Count: BinaryInteger>(
        _ statistics: Statistics, by causes: [DropCause<Statistics, Count>]
    ) {
        for cause in causes {
            counters.append(
                Counter(
                    cause: cause.name, summary: cause.summary,
                    count: UInt64(clamping: statistics[keyPath: cause.counter])))
        }
    }

    /// The name and the count of each cause, in a fixed order.
    public var byCause: [(cause: String, count: UInt64)] { counters.map { ($0.cause, $0.count) } }

    /// The causes with a count that is not zero, by name: the form that status messages have.
    public var counted: [String: UInt64] {
        var counted: [String: UInt64] = [:]
        for counter in counters where counter.count > 0 { counted[counter.cause] = counter.count }
        return counted
    }

    /// The count of a cause; `nil` if no cause has this name.
    public subscript(cause: String) -> UInt64? { counters.first { $0.cause == cause }?.count }

    /// The sum of all counts.
    public var total: UInt64 { counters.reduce(0) { $0 &+ $1.count } }
}

extension DropCounters: CustomStringConvertible {
    /// The causes with a count that is not zero, in one line.
    public var description: String {
        let causes = counters.filter { $0.count > 0 }.map { "\($0.cause) \($0.count)" }
        return causes.isEmpty ? "none" : causes.joined(separator: ", ")
    }
}
