// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import NetworkAddresses
import Testing
import TunnelIO
import TunnelSystem
import WireGuardDevice

@testable import DemoSupport
@testable import culvert

@Suite("culvert demo", .serialized)
struct DemoTests {
    private static let plan = Demo.Plan(pings: 5, transfer: .milliseconds(250))

    @Test("A small run succeeds, compares every byte, and prints plain lines")
    func plain() throws {
        let captured = CapturedConsole()
        let demo = Demo(plan: Self.plan, view: DemoView(.plain, console: captured.console()))
        demo.run()
        #expect(demo.report.failure == nil)
        let json = Demo.json(demo.report, demo.drops)
        #expect(json["ping"]?["ipv4"]?["answered"] == .integer(5) && json["ping"]?["ipv6"]?["answered"] == .integer(5))
        func number(_ name: String, of transfer: String) -> Int64 {
            guard case .integer(let number)? = json["transfer"]?[transfer]?[name] else { return -1 }
            return number
        }
        for transfer in ["upload", "download"] {
            let received = number("packetsReceived", of: transfer)
            #expect(received > 0 && number("bytes", of: transfer) == received * 1420)
            #expect(number("packetsDamaged", of: transfer) == 0)
        }
        #expect(json["roaming"]?["newHandshakes"] == .integer(0))
        #expect(json["roaming"]?["seenPort"] == json["roaming"]?["newPort"])
        #expect(json["presharedKey"]?["refusedWithoutIt"] == true)
        #expect(json["client"]?["handshakesCompleted"] == .integer(2))
        #expect(demo.drops.count == 14 && demo.drops.allSatisfy { !$0.isUnexplained })
        guard case .integer(let memory)? = json["peakResidentBytes"] else {
            Issue.record("there is no figure of the memory")
            return
        }
        #expect(memory > 1 << 20)
        for step in [
            "devices", "handshake", "ping IPv4", "ping IPv6", "upload", "download", "roaming", "pre-shared key",
        ] {
            #expect(captured.output.contains("ok      \(step)"))
        }
        #expect(captured.output.contains("Summary"))
        #expect(!captured.output.contains("\u{1b}"))
        #expect(captured.error.isEmpty)
        #expect(
            json.names == [
                "ok", "error", "version", "mode", "mtu", "elapsedSeconds", "handshake", "ping", "transfer", "roaming",
                "presharedKey", "client", "server", "drops", "peakResidentBytes",
            ])
        #expect(json["ok"] == true)
    }

    @Test("A report of nothing still has the shape of the document")
    func emptyReport() {
        var report = DemoReport()
        report.failure = "no session"
        let json = Demo.json(report, [])
        #expect(json["ok"] == false)
        #expect(json["error"] == "no session")
        #expect(json["client"] == .null)
        #expect(json["drops"] == .array([]))
        #expect(json["transfer"]?.names == ["upload", "download"])
    }

    @Test("A lost far end ends a transfer with an error instead of waiting for ever")
    func silence() throws {
        let client = try DemoEnd("client", number: 2)
        let server = try DemoEnd("server", number: 1)
        defer {
            client.device.close()
            server.device.close()
        }
        // No peers: nothing leaves the device.
        let failure = #expect(throws: DemoFailure.self) {
            _ = try client.host.send(
                to: server.host, mtu: DemoEnd.mtu, for: .milliseconds(10), silence: .milliseconds(300))
        }
        #expect(try #require(failure).description.contains("silent"))
    }

    @Test("The lines of the script become steps, figures and closing lines")
    func lines() {
        let captured = CapturedConsole()
        var lines = DemoLines(view: DemoView(.plain, console: captured.console()))
        for line in [
            "title\tTwo tunnels", "begin\tping IPv4", "pings\tipv4\t50\t49\t0.1\t0.2\t0.3", "begin\tupload",
            "transfer\tupload\t1500\t7", "begin\troaming", "figure\tnewPort\t40000", "finish\tin {time}, {time}",
            "summary\tcut off after\t{time}", "begin\tdownload", "without\tiperf3\tnot installed", "nonsense", "",
        ] {
            lines.show(line)
        }
        lines.close(nil)
        for text in [
            "Two tunnels\n", "ok      ping IPv4       49 of 50 answered, round trip 0.100 / 0.200 / 0.300 ms",
            "ok      upload          1,500 Mbit/s of TCP payload, 7 segments sent again", " ms, ",
            "ok      download        left out: not installed", "  pings lost                 1 of 50\n",
            "  upload                     1,500 Mbit/s\n", "  cut off after ",
        ] {
            #expect(captured.output.contains(text), "\(text)")
        }
        #expect(!captured.output.contains("{time}"))
        let json = Demo.json(namespaces: lines.report)
        #expect(json["ok"] == true && json["iperf3"] == .null && json["roaming"]?["newPort"] == .integer(40_000))
        #expect(json["ping"]?["ipv4"]?["lost"] == .integer(1))
    }

    @Test("The demonstration fails with the first failure of the script")
    func failedLines() {
        let captured = CapturedConsole()
        var lines = DemoLines(view: DemoView(.plain, console: captured.console()))
        for line in ["begin\ttunnel", "fail\tno answer", "begin\tremoval", "finish\tgone"] { lines.show(line) }
        lines.close("the last line of the output")
        #expect(lines.report.failure == "no answer")
        #expect(captured.output.contains("FAILED  tunnel          no answer") && !captured.output.contains("Summary"))
        var silent = DemoLines(view: DemoView(.silent, console: captured.console()))
        silent.close("sh: not found")
        #expect(silent.report.failure == "sh: not found")
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
