// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One metric with all its series, in the form of Prometheus.
package struct MetricFamily: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable { case counter, gauge, histogram }

    package struct Label: Hashable, Sendable, Comparable {
        package var name: String
        package var value: String

        package init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }

        package static func < (one: Label, other: Label) -> Bool {
            (one.name, one.value) < (other.name, other.value)
        }
    }

    package struct Sample: Hashable, Sendable {
        /// The suffix of the family's name, such as `_bucket`, `_sum` and `_count` of histograms.
        package var suffix = ""
        package var labels: [Label] = []
        package var value: Double

        package init(_ value: Double, labels: [Label] = [], suffix: String = "") {
            (self.value, self.labels, self.suffix) = (value, labels, suffix)
        }
    }

    package var name: String
    package var kind: Kind
    package var help: String
    package var samples: [Sample]

    package init(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample]) {
        (self.name, self.kind, self.help, self.samples) = (name, kind, help, samples)
    }

    /// A family of one series.
    package init(_ name: String, _ kind: Kind, _ help: String, _ value: some BinaryInteger) {
        self.init(name, kind, help, [Sample(Double(value))])
    }
}

/// The text format of Prometheus, version 0.0.4.
package enum PrometheusText {
    package static let mediaType = "text/plain; version=0.0.4; charset=utf-8"

    /// The text of the families, in the order of their names.
    package static func text(_ families: [MetricFamily]) -> String {
        var text = ""
        for family in families.sorted(by: { $0.name < $1.name }) where !family.samples.isEmpty {
            text += "# HELP \(family.name) \(escaped(family.help, quotes: false))\n"
            text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
            for sample in family.samples {
                text += family.name + sample.suffix
                if !sample.labels.isEmpty {
                    let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
                    text += "{" + labels.joined(separator: ",") + "}"
                }
                text += " " + number(sample.value) + "\n"
            }
        }
        return text
    }

    static func number(_ value: Double) -> String {
        if value == .infinity { return "+Inf" }
        if value == -.infinity { return "-Inf" }
        if value.isNaN { return "NaN" }
        if value == value.rounded(), value.magnitude < 9e15 { return String(Int64(value)) }
        return "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
