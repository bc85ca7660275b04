// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Metrics
import Testing

@testable import Gateway

@Suite("Metrics for Prometheus")
struct MetricRegistryTests {
    @Test("Counters, gauges and timers are written in the text format")
    func text() {
        let registry = MetricRegistry(help: ["a_total": "A \\ line\nand one more"])
        Counter(label: "a_total", dimensions: [("route", "/x\"\\\n"), ("code", "200")], factory: registry).increment(
            by: 2)
        Counter(label: "a_total", dimensions: [("code", "200"), ("route", "/x\"\\\n")], factory: registry).increment()
        Gauge(label: "b", factory: registry).record(1.5)
        Timer(label: "c_seconds", factory: registry).recordMilliseconds(3)
        let text = PrometheusText.text(registry.families)
        #expect(
            text.hasPrefix(
                """
                # HELP a_total A \\\\ line\\nand one more
                # TYPE a_total counter
                a_total{code="200",route="/x\\"\\\\\\n"} 3
                # HELP b b
                # TYPE b gauge
                b 1.5
                # HELP c_seconds c_seconds
                # TYPE c_seconds histogram
                c_seconds_bucket{le="0.0005"} 0

                """), "\(text)")
        #expect(text.contains("c_seconds_bucket{le=\"0.0025\"} 0\nc_seconds_bucket{le=\"0.005\"} 1\n"))
        #expect(text.hasSuffix("c_seconds_bucket{le=\"+Inf\"} 1\nc_seconds_sum 0.003\nc_seconds_count 1\n"))
        #expect(PrometheusFormat.problems(in: text).isEmpty)
    }

    @Test("Series are bounded in number")
    func bound() {
        let registry = MetricRegistry()
        for number in 0..<10_000 {
            Counter(label: "a_total", dimensions: [("n", "\(number)")], factory: registry).increment()
        }
        #expect(registry.families.first?.samples.count == 4096)
    }

    @Test("The checker finds what promtool reports")
    func format() {
        for text in [
            "a 1\n", "# TYPE a counter\na_total 1\n", "# TYPE a_total counter\na_total x\n",
            "# TYPE a_total counter\na_total{b=c} 1\n", "# TYPE a_total counter\na_total 1\na_total 1\n",
            "# TYPE a counter\na 1",
            "# TYPE a counter\na 1\n",
        ] {
            #expect(!PrometheusFormat.problems(in: text).isEmpty, "\(text)")
        }
    }
}

/// The checks of `promtool check metrics` that apply to the gateway's metrics.
enum PrometheusFormat {
    static func problems(in text: String) -> [String] {
        var problems: [String] = []
        var types: [String: String] = [:]
        var seen: Set<String> = []
        if !text.isEmpty, !text.hasSuffix("\n") { problems.append("no newline at the end") }
        for line in text.split(separator: "\n") {
            if let parts = try? /# TYPE ([a-z_][a-z0-9_]*) (counter|gauge|histogram)/.wholeMatch(in: line) {
                if types.updateValue(String(parts.2), forKey: String(parts.1)) != nil {
                    problems.append("twice: \(line)")
                }
                if parts.2 == "counter", !parts.1.hasSuffix("_total") {
                    problems.append("a counter ends in _total: \(line)")
                }
                continue
            }
            if line.hasPrefix("# HELP ") { continue }
            let pattern =
                /([a-z_][a-z0-9_]*)(\{[a-z_]+="(?:[^"\\]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\]|\\["\\n])*")*\})? ([0-9.e+-]+|[+-]Inf|NaN)/
            guard let parts = try? pattern.wholeMatch(in: line) else {
                problems.append("no sample: \(line)")
                continue
            }
            let name = String(parts.1)
            var family = name
            for suffix in ["_bucket", "_sum", "_count"] where types[name] == nil && name.hasSuffix(suffix) {
                family = String(name.dropLast(suffix.count))
            }
            if types[family] == nil { problems.append("no type: \(line)") }
            if !seen.insert(name + (parts.2 ?? "")).inserted { problems.append("twice: \(line)") }
        }
        return problems
    }
}
