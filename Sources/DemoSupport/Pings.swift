// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
package import TunnelSystem

/// The result of a series of pings.
package struct Pings: Equatable {
    package var sent: Int
    package var answered: Int
    /// The least, mean and longest round trip in milliseconds; empty if no ping was answered.
    package var times: [Double]

    package init(sent: Int, answered: Int, times: [Double] = []) {
        (self.sent, self.answered, self.times) = (sent, answered, times)
    }

    package init(sent: Int, roundTrips: [Duration]) {
        let all = roundTrips.map(\.milliseconds)
        self.init(sent: sent, answered: all.count)
        guard let minimum = all.min(), let maximum = all.max() else { return }
        times = [minimum, all.reduce(0, +) / Double(all.count), maximum]
    }

    package var lost: Int { sent - answered }

    package var text: String {
        let words = times.isEmpty ? ["-", "-", "-"] : times.map { Figure.decimal($0, places: 3) }
        return "\(answered) of \(sent) answered, round trip \(words.joined(separator: " / ")) ms (min / mean / max)"
    }

    package var json: JSON {
        func time(_ index: Int) -> JSON { times.count > index ? .decimal(times[index], places: 4) : .null }
        return [
            "sent": .integer(sent), "answered": .integer(answered), "lost": .integer(lost),
            "minimumMilliseconds": time(0), "meanMilliseconds": time(1), "maximumMilliseconds": time(2),
        ]
    }
}
