// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

@testable import culvert

@Suite("culvert demo", .serialized)
struct DemoTests {
    private static let plan = Demo.Plan(pings: 5, transfer: .milliseconds(250))

    @Test("A small run succeeds, compares every byte, and prints plain lines")
    func plain() throws {
        let captured = CapturedConsole()
        let demo = Demo(plan: Self.plan, view: DemoView(.plain, console: captured.console()))
        demo.run()
        let report = demo.report
        #expect(report.failure == nil)
        #expect(report.pingsV4?.answered == 5 && report.pingsV6?.answered == 5)
        let upload = try #require(report.upload)
        #expect(upload.received > 0 && upload.damaged == 0 && upload.bytes == upload.received * 1420)
        #expect(try #require(report.download).received > 0)
        #expect(report.roaming?.newHandshakes == 0)
        #expect(report.roaming?.seenPort == report.roaming?.newPort)
        #expect(report.presharedHandshake != nil)
        #expect(report.client?.engine.handshakesCompleted == 2)
        #expect(report.drops.allSatisfy { !$0.isUnexplained })
        #expect(report.peakResidentBytes > 1 << 20)
        for step in [
            "devices", "handshake", "ping IPv4", "ping IPv6", "upload", "download", "roaming", "pre-shared key",
        ] {
            #expect(captured.output.contains("ok      \(step)"))
        }
        #expect(captured.output.contains("Summary"))
        #expect(!captured.output.contains("\u{1b}"))
        #expect(captured.error.isEmpty)
        #expect(
            report.json.names == [
                "ok", "error", "version", "mode", "mtu", "elapsedSeconds", "handshake", "ping", "transfer", "roaming",
                "presharedKey", "client", "server", "drops", "peakResidentBytes",
            ])
        #expect(report.json["ok"] == true)
        #expect(report.json["transfer"]?["upload"]?["packetsDamaged"] == .integer(0))
        #expect(report.json["ping"]?["ipv6"]?["answered"] == .integer(5))
        #expect(report.json["client"]?["handshakesCompleted"] == .integer(2))
    }

    @Test("A report of nothing still has the shape of the document")
    func emptyReport() {
        var report = DemoReport()
        report.failure = "no session"
        #expect(report.json["ok"] == false)
        #expect(report.json["error"] == "no session")
        #expect(report.json["client"] == .null)
        #expect(report.json["drops"] == .array([]))
        #expect(report.json["transfer"]?.names == ["upload", "download"])
    }

    @Test("A lost far end ends a transfer with an error instead of waiting for ever")
    func silence() throws {
        let client = try DemoHost(name: "client", number: 2, peerNumber: 1)
        let server = try DemoHost(name: "server", number: 1, peerNumber: 2)
        defer {
            client.device.close()
            server.device.close()
        }
        // No peers: nothing leaves the device.
        var transfer = try BulkTransfer(run: 1, from: client, to: server)
        transfer.silenceLimit = .milliseconds(300)
        let failure = #expect(throws: DemoFailure.self) {
            _ = try transfer.send(for: .milliseconds(10)) { _, _ in }
        }
        #expect(try #require(failure).description.contains("silent"))
    }

    @Test("The live view redraws its line and ends it with a mark")
    func live() {
        let captured = CapturedConsole()
        let view = DemoView(.live, console: captured.console(isLive: true))
        view.begin("upload")
        view.progress(String(repeating: "x", count: 200))
        view.finish("done")
        let lines = captured.output.split(separator: "\r", omittingEmptySubsequences: true)
        #expect(lines.count == 3)
        #expect(lines.allSatisfy { $0.hasPrefix("\u{1b}[2K") })
        // Not longer than the terminal is wide, or it could not be redrawn.
        #expect(lines[1].count { $0 == "x" } <= 80)
        #expect(lines[2].contains("✓") && lines[2].hasSuffix("done\n"))
        #expect(captured.output.count { $0 == "\n" } == 1)
    }

    @Test("Without output nothing is written")
    func silent() {
        let captured = CapturedConsole()
        let view = DemoView(.silent, console: captured.console())
        view.open("x")
        view.begin("x")
        view.fail("x")
        view.show(["x"])
        #expect(captured.output.isEmpty)
        DemoView(.plain, console: captured.console()).fail("why")
        #expect(captured.output.hasPrefix("FAILED"))
    }
}
