// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

/// What came of a series of pings.
struct Pings: Equatable {
    var sent: Int
    var answered: Int
    /// Milliseconds; nil when nothing was answered.
    var minimum: Double?
    var mean: Double?
    var maximum: Double?

    var lost: Int { sent - answered }

    var text: String {
        let times = [minimum, mean, maximum].map { $0.map { Figure.decimal($0, places: 3) } ?? "-" }
        return "\(answered) of \(sent) answered, round trip \(times.joined(separator: " / ")) ms (min / mean / max)"
    }

    var json: JSON {
        func time(_ value: Double?) -> JSON { value.map { .decimal($0, places: 4) } ?? .null }
        return [
            "sent": .integer(sent), "answered": .integer(answered), "lost": .integer(lost),
            "minimumMilliseconds": time(minimum), "meanMilliseconds": time(mean), "maximumMilliseconds": time(maximum),
        ]
    }
}

extension Pings {
    init(sent: Int, roundTrips: [Duration]) {
        let times = roundTrips.map(\.milliseconds)
        self.init(
            sent: sent, answered: times.count, minimum: times.min(),
            mean: times.isEmpty ? nil : times.reduce(0, +) / Double(times.count), maximum: times.max())
    }
}

/// The closing lines of a demonstration.
struct DemoSummary {
    var lines = ["", "Summary"]

    mutating func add(_ name: String, _ value: String?) {
        if let value { lines.append("  \(name.padded(to: 26)) \(value)") }
    }

    mutating func addLost(_ v4: Pings?, _ v6: Pings?) {
        guard let v4, let v6 else { return }
        add("pings lost", "\(v4.lost + v6.lost) of \(v4.sent + v6.sent)")
    }
}
