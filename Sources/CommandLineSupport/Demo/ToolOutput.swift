// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Reads the figures that `ping` and `iperf3` print.
package enum ToolOutput {
    package struct Transfer: Equatable {
        /// What the receiver got.
        package var megabitsPerSecond: Double
        /// TCP segments that were sent again.
        package var retransmissions: Int?

        package init(megabitsPerSecond: Double, retransmissions: Int?) {
            self.megabitsPerSecond = megabitsPerSecond
            self.retransmissions = retransmissions
        }
    }

    /// The figures of `ping -q`; nil when the text is something else.
    package static func pings(_ text: String) -> Pings? {
        var result: Pings?
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.contains("packets transmitted"), words.count > 3, let sent = Int(words[0]),
                let answered = Int(words[3])
            {
                result = Pings(sent: sent, answered: answered)
            } else if line.contains("min/avg/max"), let equals = line.firstIndex(of: "=") {
                let values = line[line.index(after: equals)...].split(separator: " ").first?.split(separator: "/")
                let numbers = (values ?? []).compactMap { Double($0) }
                guard numbers.count >= 3 else { continue }
                result?.minimum = numbers[0]
                result?.mean = numbers[1]
                result?.maximum = numbers[2]
            }
        }
        return result
    }

    /// The figures of `iperf3 -f m`; nil when the text is something else.
    package static func transfer(_ text: String) -> Transfer? {
        var rate: Double?
        var retransmissions: Int?
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            guard let unit = words.firstIndex(of: "Mbits/sec"), unit > 0 else { continue }
            if words.last == "receiver" {
                rate = Double(words[unit - 1])
            } else if words.last == "sender", unit + 2 < words.count {
                retransmissions = Int(words[unit + 1])
            }
        }
        return rate.map { Transfer(megabitsPerSecond: $0, retransmissions: retransmissions) }
    }
}
