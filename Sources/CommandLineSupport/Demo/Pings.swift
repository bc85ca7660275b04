// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// What came of a series of pings.
package struct Pings: Equatable {
    package var sent: Int
    package var answered: Int
    /// Milliseconds; nil when nothing was answered.
    package var minimum: Double?
    package var mean: Double?
    package var maximum: Double?

    package init(sent: Int, answered: Int, minimum: Double? = nil, mean: Double? = nil, maximum: Double? = nil) {
        self.sent = sent
        self.answered = answered
        self.minimum = minimum
        self.mean = mean
        self.maximum = maximum
    }

    package var lost: Int { sent - answered }

    package var text: String {
        let times = [minimum, mean, maximum].map { $0.map { Figure.decimal($0, places: 3) } ?? "-" }
        return "\(answered) of \(sent) answered, round trip \(times.joined(separator: " / ")) ms (min / mean / max)"
    }

    package var json: JSON {
        func time(_ value: Double?) -> JSON { value.map { .decimal($0, places: 4) } ?? .null }
        return [
            "sent": .integer(sent), "answered": .integer(answered), "lost": .integer(lost),
            "minimumMilliseconds": time(minimum), "meanMilliseconds": time(mean), "maximumMilliseconds": time(maximum),
        ]
    }
}

extension Pings {
    package init(sent: Int, roundTrips: [Duration]) {
        let times = roundTrips.map(\.milliseconds)
        self.init(
            sent: sent, answered: times.count, minimum: times.min(),
            mean: times.isEmpty ? nil : times.reduce(0, +) / Double(times.count), maximum: times.max())
    }
}

/// The closing lines of a demonstration.
package struct DemoSummary {
    package var lines = ["", "Summary"]

    package init() {}

    package mutating func add(_ name: String, _ value: String?) {
        if let value { lines.append("  \(name.padded(to: 26)) \(value)") }
    }

    package mutating func addLost(_ v4: Pings?, _ v6: Pings?) {
        guard let v4, let v6 else { return }
        add("pings lost", "\(v4.lost + v6.lost) of \(v4.sent + v6.sent)")
    }
}
