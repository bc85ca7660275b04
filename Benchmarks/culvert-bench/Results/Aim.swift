// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// A figure that the project aims at.
struct Aim: Sendable {
    enum Bound: Sendable {
        case atLeast(Double)
        case atMost(Double)

        func holds(_ value: Double) -> Bool {
            switch self {
            case .atLeast(let least): value >= least
            case .atMost(let most): value <= most
            }
        }

        var text: String {
            switch self {
            case .atLeast(let least): "at least \(Aim.number(least))"
            case .atMost(let most): "at most \(Aim.number(most))"
            }
        }
    }

    let title: String
    let bound: Bound
    /// The measured value, or `nil` if it was not measured.
    let value: @Sendable ([Results]) -> Double?

    /// All aims, in the order of the table.
    static let all: [Aim] = [
        Aim(title: "TCP, one stream, to the newest wireguard-go measured", bound: .atLeast(2)) { results in
            newestWireGuardGo(results).flatMap { results.ratio(.tcpOne, to: $0) }
        },
        Aim(title: "Handshakes per second, to the newest wireguard-go measured", bound: .atLeast(1.5)) { results in
            newestWireGuardGo(results).flatMap { results.ratio(.handshakes, to: $0) }
        },
        ratio("TCP, one stream, to the baseline", .tcpOne, ContenderName.baseline, .atLeast(0.85)),
        ratio("CPU time per GB, sending end, to the baseline", .costSender, ContenderName.baseline, .atMost(1.15)),
        ratio("CPU time per GB, receiving end, to the baseline", .costReceiver, ContenderName.baseline, .atMost(1.15)),
        ratio("UDP of 1300 bytes received, to the baseline", .udp, ContenderName.baseline, .atLeast(0.8)),
        Aim(title: "Resident memory when idle, MiB", bound: .atMost(10)) {
            $0.row(Figure.memoryIdle.title, ContenderName.culvert)?.median
        },
        Aim(title: "Peak memory after all, MiB", bound: .atMost(16)) {
            $0.row(Figure.memoryPeak.title, ContenderName.culvert)?.median
        },
        Aim(title: "Seal and open of 1420 bytes, to the bare AEAD", bound: .atMost(1.10), value: sealAndOpen),
        Aim(title: "Time of a packet in the login tunnel, to WireGuard's", bound: .atMost(1.05)) {
            $0.row(LoginTunnel.suite, LoginTunnel.ratio)?.median
        },
        Aim(title: "TCP through a gateway with rules for 10,000 clients, to a tunnel without", bound: .atLeast(0.95)) {
            $0.row(GatewayFigure.suite, GatewayFigure.ratio)?.median
        },
        Aim(title: "Change of one client's rules among 10,000 clients, ms", bound: .atMost(20)) {
            $0.row(GatewayFigure.suite, GatewayFigure.change)?.median
        },
        Aim(title: "culvert up to the first answered ping, to wg-quick with culvert-wg", bound: .atMost(0.5)) {
            guard let culvert = $0.row(Figure.bringUp.title, ContenderName.culvertUp),
                let wgQuick = $0.row(Figure.bringUp.title, ContenderName.wgQuickUp)
            else { return nil }
            return culvert.median / wgQuick.median
        },
        Aim(title: "Allocations per packet, most of all stages", bound: .atMost(0), value: allocations),
        ratio("Round trip when idle, to the baseline", .idleMedian, ContenderName.baseline, .atMost(1.6)),
        ratio("Round trip under load, to the baseline", .loadedMedian, ContenderName.baseline, .atMost(1.5)),
    ]

    private static func ratio(_ title: String, _ figure: Figure, _ other: String, _ bound: Bound) -> Aim {
        Aim(title: title, bound: bound) { $0.ratio(figure, to: other) }
    }

    /// The contender that is the newest version of wireguard-go.
    private static func newestWireGuardGo(_ results: [Results]) -> String? {
        results.flatMap(\.rows).filter { $0.suite == Figure.tcpOne.title }.map(\.name)
            .filter { $0.hasPrefix("\(ContenderName.wireGuardGo) ") }
            .max { $0.compare($1, options: .numeric) == .orderedAscending }
    }

    private static func sealAndOpen(_ results: [Results]) -> Double? {
        let suite = DataPath.suiteName(1420)
        func sum(_ name: String) -> Double? {
            guard let seal = results.row(suite, "\(name) seal"), let open = results.row(suite, "\(name) open") else {
                return nil
            }
            return seal.median + open.median
        }
        guard let engine = sum("engine"), let bare = sum("BoringSSL in place") else { return nil }
        return engine / bare
    }

    private static func allocations(_ results: [Results]) -> Double? {
        results.flatMap(\.rows).filter { $0.suite == AllocationCount.suite && $0.name != AllocationCount.control }
            .map(\.median).max()
    }

    /// The text of the table's columns: title, aim, measured, verdict.
    func cells(_ results: [Results]) -> [String] {
        guard let value = value(results), value.isFinite else { return [title, bound.text, "not measured", "-"] }
        return [title, bound.text, Aim.number(value), bound.holds(value) ? "met" : "not met"]
    }

    /// Fine enough to tell on which side of a bound it lies.
    static func number(_ value: Double) -> String {
        if value == value.rounded(), value.magnitude < 1e9 { return String(Int(value)) }
        return String(format: value.magnitude < 10 ? "%.3f" : "%.2f", value)
    }
}
