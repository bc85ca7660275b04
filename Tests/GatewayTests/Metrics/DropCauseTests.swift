// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing
import TunnelIO
import WireGuardDevice

@testable import CredentialTunnel
@testable import Gateway

@Suite("Drop causes")
struct DropCauseTests {
    private static let client = CredentialClientDevice.drops(
        ClientStatistics(), LaneStatistics(), DatagramReceiveDrops())

    /// The drop counters of a login tunnel's server.
    private static func server(
        _ statistics: ServerDeviceStatistics = ServerDeviceStatistics(), _ lane: LaneStatistics = LaneStatistics()
    ) -> DropCounters { CredentialServerDevice.drops(statistics, lane, DatagramReceiveDrops()) }

    private static func samples(_ name: String, _ figures: RuntimeFigures) -> [String: Double] {
        let samples = figures.families.first { $0.name == name }?.samples ?? []
        return Dictionary(samples.map { ($0.labels.first?.value ?? "", $0.value) }) { first, _ in first }
    }

    @Test("The gateway's metrics have each drop cause of WireGuard, its lanes and the login tunnel")
    func metrics() {
        var lane = LaneStatistics()
        lane.droppedByDevice = 3
        var statistics = ServerDeviceStatistics()
        (statistics.disallowedSource, statistics.protocolDrops.verificationsExpired) = (5, 7)
        var figures = RuntimeFigures()
        figures.drops = DeviceStatistics(lane: lane).drops
        figures.login = LoginFigures(statistics, drops: Self.server(statistics, lane), port: nil)

        let wireGuard = Self.samples("culvert_gateway_drops_total", figures)
        let login = Self.samples("culvert_gateway_login_drops_total", figures)
        for (samples, drops) in [(wireGuard, figures.drops), (login, Self.server(statistics, lane))] {
            #expect(samples.count == drops.counters.count)
            for counter in drops.counters {
                #expect(samples[counter.cause.replacing(" ", with: "_")] == Double(counter.count), "\(counter.cause)")
            }
        }
        #expect(wireGuard["refused_by_device"] == 3 && login["refused_by_device"] == 3)
        #expect(login["disallowed_source"] == 5 && login["verifications_expired"] == 7)
    }

    @Test("Each drop counter of the login tunnel's server has a cause with its own name")
    func names() {
        #expect(Mirror(reflecting: ServerStatistics()).children.count == ServerStatistics.dropCauses.count)
        #expect(Mirror(reflecting: DatagramReceiveDrops()).children.count == DatagramReceiveDrops.dropCauses.count)
        for drops in [Self.server(), Self.client, DeviceStatistics().drops] {
            #expect(Set(drops.counters.map(\.cause)).count == drops.counters.count)
            #expect(Set(drops.counters.map(\.summary)).count == drops.counters.count)
        }
        // Metrics that dashboards query.
        let names = [
            "no route", "disallowed source", "malformed packets", "answers dropped", "malformed", "wrong keys",
            "cookie demanded", "rate limited", "evicted", "unknown session", "forged", "replayed", "out of place",
            "verifications full",
        ]
        #expect(Self.server().counters.map(\.cause).filter(names.contains) == names)
    }

    // MARK: - The page

    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/drop-causes.md")

    private static var page: String {
        func table(_ title: String, _ text: String, _ drops: DropCounters) -> String {
            "\n## \(title)\n\n\(text)\n\n| Cause | Packets or datagrams |\n|---|---|\n"
                + drops.counters.map { "| `\($0.cause)` | \($0.summary) |\n" }.joined()
        }
        return """
            # Drop causes

            A tunnel counts each packet and datagram that it does not pass on, by cause. Text, JSON and logs have the causes
            with a count that is not zero. Metrics have all of them, with `_` in place of spaces. `scripts/contract --update`
            writes this page.

            """
                + table(
                    "WireGuard",
                    "In `culvert status`, `culvert demo`, the log of `culvert-wg`, and the metric `culvert_gateway_drops_total`.",
                    DeviceStatistics().drops)
                + table("Login tunnel: client", "In `culvert status`.", client)
                + table("Login tunnel: server", "In the metric `culvert_gateway_login_drops_total`.", server())
    }

    /// `scripts/contract --update` sets CULVERT_CONTRACT=update; the test then writes the file first.
    @Test("The page docs/drop-causes.md lists each drop cause")
    func documentation() throws {
        if ProcessInfo.processInfo.environment["CULVERT_CONTRACT"] == "update" {
            try Data(Self.page.utf8).write(to: Self.file)
        }
        #expect(
            try String(contentsOf: Self.file, encoding: .utf8) == Self.page,
            "docs/drop-causes.md differs from the tables: run scripts/contract --update")
    }
}
