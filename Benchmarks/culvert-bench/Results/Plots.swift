// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The plots that accompany the tables.
enum Plots {
    /// Whole tunnels: `nil` if none were measured.
    static func tunnels(_ results: [Results]) -> String? {
        guard let result = results.first(where: { $0.title == "tunnel" }) else { return nil }
        let panels: [(String, [(Figure, String)])] = [
            (
                "Throughput, Gbit/s",
                [
                    (.tcpOne, "TCP, 1 stream"), (.tcpFour, "TCP, 4 streams"), (.tcpBothWays, "TCP, both ways"),
                    (.udp, "UDP, 1300 B"),
                ]
            ),
            (
                "Round trip, ms",
                [
                    (.idleMedian, "idle, median"), (.idleLate, "idle, 99 %"), (.loadedMedian, "loaded, median"),
                    (.loadedLate, "loaded, 99 %"),
                ]
            ),
            (
                "CPU time, seconds per GB of one TCP stream",
                [(.costSender, "sending daemon"), (.costReceiver, "receiving daemon"), (.costMachine, "whole machine")]
            ),
            ("Packets of 64 bytes, million per second", [(.smallPackets, "UDP, received")]),
            ("Resident memory, MiB", [(.memoryIdle, "idle"), (.memoryPeak, "peak")]),
            ("Handshakes with 1,000 peers, per second", [(.handshakes, "completed")]),
        ]
        var names: [String] = []
        for row in result.rows where row.unit != .ratio && !names.contains(row.name) { names.append(row.name) }
        let charts = panels.compactMap { title, figures -> BarChart? in
            let groups = figures.compactMap { figure, label -> BarChart.Group? in
                let bars = result.rows.compactMap { row -> BarChart.Bar? in
                    guard row.suite == figure.title, row.unit != .ratio, let series = names.firstIndex(of: row.name)
                    else { return nil }
                    return BarChart.Bar(series: series, row: row)
                }
                return bars.isEmpty ? nil : BarChart.Group(label: label, bars: bars)
            }
            return groups.isEmpty ? nil : BarChart(title: title, groups: groups)
        }
        return charts.isEmpty ? nil : BarChart.draw(charts, series: names, caption: caption(result))
    }

    /// The stages of the data path next to the bare AEAD.
    static func stages(_ results: [Results]) -> String? {
        guard let result = results.first(where: { $0.title == "stages" }) else { return nil }
        var names: [String] = []
        for row in result.rows where !names.contains(row.suite) { names.append(row.suite) }
        let charts = names.map { suite in
            let rows = result.rows.filter { $0.suite == suite }
            return BarChart(
                title: "\(suite), \(rows.first?.unit.rawValue ?? "")",
                groups: rows.map {
                    BarChart.Group(label: $0.name, bars: [.init(series: $0.name.hasPrefix("bare") ? 1 : 0, row: $0)])
                },
                isHorizontal: true)
        }
        return BarChart.draw(charts, series: ["Culvert", "BoringSSL by itself"], caption: caption(result))
    }

    private static func caption(_ result: Results) -> String {
        "Median; whiskers from least to greatest. \(result.machine.line); \(result.date)"
    }
}
