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
    private func run(_ body: (DemoReport) async throws -> Void) async -> (
        report: DemoReport, status: Int32, output: String
    ) {
        let captured = CapturedConsole()
        let report = DemoReport(DemoView(.plain, console: captured.console()), Demo.scriptMembers)
        let status = await report.run(body)
        #expect(captured.error.isEmpty)
        return (report, status, captured.output)
    }

    @Test("A small run succeeds, compares every byte, and prints plain lines")
    func plain() async {
        let captured = CapturedConsole()
        let report = DemoReport(DemoView(.plain, console: captured.console()), Demo.members)
        var demo = Demo(transfer: .milliseconds(250))
        demo.pings = 5
        let status = await report.run { try await demo.show($0) }
        #expect(status == 0 && report.failure == nil)
        let json = report.json
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
        #expect(json["drops"]?.list?.count == DeviceStatistics().drops.byCause.count + 1)
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
        for line in [
            "first packet, handshake", "pings lost                 0 of 10", "client to server", "server to client",
            "every byte compared", "handshake, new preshared", "handshakes completed       client 2, server ",
            "peak resident memory", "time",
        ] {
            #expect(captured.output.contains("\n  \(line)"), "\(line)")
        }
        #expect(captured.output.contains("Summary") && captured.output.contains("datagrams per batch sent"))
        #expect(!captured.output.contains("\u{1b}"))
        #expect(captured.error.isEmpty)
        #expect(
            json.names == [
                "ok", "error", "version", "mode", "mtu", "elapsedSeconds", "handshake", "ping", "transfer", "roaming",
                "presharedKey", "client", "server", "drops", "peakResidentBytes",
            ])
        #expect(json["ok"] == true)
    }

    @Test("The login tunnel's demonstration refuses a wrong password, pings, and survives a new password")
    func login() async {
        let captured = CapturedConsole()
        let report = DemoReport(DemoView(.plain, console: captured.console()), LoginDemo.members)
        let status = await report.run { try await LoginDemo(transfer: .zero).show($0) }
        #expect(status == 0 && report.failure == nil, "\(captured.output)")
        for step in ["server", "wrong password", "login", "ping", "new password"] {
            #expect(captured.output.contains("ok      \(step)"))
        }
        #expect(report.json["ping"]?["answered"] == .integer(100) && report.json["login"]?["milliseconds"] != nil)
        #expect(report.json.names == ["ok", "error", "version", "mode", "elapsedSeconds", "login", "ping"])
    }

    @Test("A report of nothing still has the shape of the document")
    func emptyReport() {
        let report = DemoReport(DemoView(.silent, console: CapturedConsole().console()), Demo.members)
        report.show("fail\tno session")
        let json = report.json
        #expect(json["ok"] == false)
        #expect(json["error"] == "no session")
        #expect(json["client"] == .null)
        #expect(json["drops"] == .array([]))
        #expect(json["transfer"]?.names == ["upload", "download"])
        // A demonstration that fails before it has devices reports this.
        guard case .integer(let memory)? = json["peakResidentBytes"] else {
            Issue.record("there is no figure of the memory")
            return
        }
        #expect(memory > 1 << 20)
    }

    @Test("A drop without an explanation fails the demonstration, and drops on purpose do not")
    func drops() {
        func unexplained(_ cause: String, isRefused: Bool = false) -> [String] {
            let report = DemoReport(DemoView(.silent, console: CapturedConsole().console()), Demo.members)
            if isRefused { report["presharedKey"] = ["refusedWithoutIt": true] }
            return Demo.record(([(cause: cause, count: 1)], [(cause: cause, count: 2)]), report)
        }
        #expect(unexplained("replayed", isRefused: true) == ["replayed (3)"])
        #expect(unexplained("unknown session") == ["unknown session (3)"])
        for cause in ["unknown session", "rejected handshakes", "staged abandoned"] {
            #expect(unexplained(cause, isRefused: true).isEmpty)
        }
        #expect(unexplained("socket queue full").isEmpty)
    }

    @Test("Packets that an interface in memory drops are counted, and fail the demonstration")
    func interfaceDrops() throws {
        let ends = (try DemoEnd("client", number: 2), try DemoEnd("server", number: 1))
        defer {
            ends.0.device.close()
            ends.1.device.close()
        }
        let report = DemoReport(DemoView(.silent, console: CapturedConsole().console()), Demo.members)
        #expect(Demo.count(ends.0, ends.1, report).isEmpty)
        let isTaken = ends.1.host.tun.inject([UInt8](repeating: 0x45, count: DemoEnd.mtu + 1))
        #expect(!isTaken && Demo.count(ends.0, ends.1, report) == ["memory interface (1)"])
        #expect(report["drops"].list?.last?["server"] == .integer(1))
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
        let failure = #expect(throws: CommandFailure.self) {
            _ = try client.host.send(to: server.host, for: .milliseconds(10), silence: .milliseconds(300))
        }
        #expect(try #require(failure).reason.contains("silent"))
    }

    @Test("The lines of the script become steps, figures and closing lines")
    func lines() async {
        let (report, status, output) = await run { report in
            for line in [
                "title\tTwo tunnels", "begin\tfirst ping", "pings\tfirstPing\t1\t1\t0.5\t0.5\t0.5", "begin\tping IPv4",
                "pings\tping.ipv4\t50\t49\t0.1\t0.2\t0.3", "begin\tupload",
                "transfer\tiperf3.upload\tclient to server\t1500\t7", "begin\troaming",
                "figure\troaming.newPort\t40000",
                "finish\tin {time}, {time}", "summary\tcut off after\t{time}", "traffic\tclient\t2000\t3000000",
                "begin\tdownload", "without\tiperf3\tnot installed", "nonsense", "",
                "pings\tping.ipv6\tnan\t1e300", "traffic\tclient\tinf\t1", "transfer\tiperf3\tup\tnan",
            ] {
                report.show(line)
            }
        }
        #expect(status == 0)
        for text in [
            "Two tunnels\n", "ok      ping IPv4       49 of 50 answered, round trip 0.100 / 0.200 / 0.300 ms",
            "ok      upload          1,500 Mbit/s of TCP payload, 7 segments sent again", " ms, ",
            "ok      download        left out: not installed", "  first ping                 0.500 ms\n",
            "  pings lost                 1 of 50\n", "  client to server           1,500 Mbit/s\n", "  cut off after ",
            "  WireGuard sent, received   2.0 kB, 3.0 MB\n", "  time ",
        ] {
            #expect(output.contains(text), "\(text)")
        }
        #expect(!output.contains("{time}"))
        let json = report.json
        #expect(json["ok"] == true && json["iperf3"] == .null && json["roaming"]?["newPort"] == .integer(40_000))
        #expect(json["ping"]?["ipv4"]?["lost"] == .integer(1))
        #expect(json["client"]?["bytesReceived"] == .integer(3_000_000))
    }

    @Test("A download that iperf3 does not start leaves the figures of the upload")
    func downloadLeftOut() async {
        let (report, status, _) = await run { report in
            for line in [
                "begin\tupload", "transfer\tiperf3.upload\tclient to server\t1500\t7", "begin\tdownload",
                "without\tiperf3.download\tiperf3 does not start",
            ] {
                report.show(line)
            }
        }
        #expect(status == 0 && report["iperf3.upload.retransmissions"] == .integer(7))
        #expect(report["iperf3.download"] == .null)
    }

    @Test("The demonstration fails with the first failure of the script, or with the error that ended it")
    func failedLines() async {
        var (report, status, output) = await run { report in
            for line in ["begin\ttunnel", "fail\tno answer", "begin\tremoval", "finish\tgone"] { report.show(line) }
            throw CommandFailure("the last line of the output")
        }
        #expect(status == 1 && report.failure == "no answer" && report.json["error"] == "no answer")
        #expect(output.contains("FAILED  tunnel          no answer") && !output.contains("Summary"))
        (report, status, output) = await run { report in
            try await report.step("tunnel") { throw CommandFailure("sh: not found", fix: "install it") }
        }
        #expect(status == 1 && report.json["ok"] == false)
        #expect(output.hasPrefix("FAILED  tunnel          sh: not found\n  fix: install it"))
    }

    @Test("A failure before Ctrl-C keeps its status and its reason", arguments: [true, false])
    func failureBeforeInterruption(isOfScript: Bool) async {
        let task = Task {
            let captured = CapturedConsole()
            let report = DemoReport(DemoView(.plain, console: captured.console()), Demo.scriptMembers)
            let status = await report.run { report in
                defer { unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() } }
                if isOfScript { return report.show("fail\tno answer") }
                try await report.steps { throw CommandFailure("no answer") }
            }
            report.show("fail\tinterrupted")
            return "\(status) \(report.failure ?? "") \(report.isInterrupted) \(report.json["error"]?.string ?? "")"
        }
        let result = await task.value
        #expect(result == "1 no answer false no answer")
    }

    @Test("A cancelled demonstration takes no further step and is interrupted")
    func interrupted() async {
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            let captured = CapturedConsole()
            let report = DemoReport(DemoView(.plain, console: captured.console()), Demo.scriptMembers)
            let status = await report.run { report in try await report.step("tunnel") { "is there" } }
            return "\(status) \(report.failure ?? "") \(captured.output.contains("is there"))"
        }
        task.cancel()
        let result = await task.value
        #expect(result == "130 interrupted false")
    }

    @Test("The report of real interfaces keeps its shape, with and without figures")
    func shape() async {
        let names = [
            "ok", "error", "version", "mode", "elapsedSeconds", "firstPing", "ping", "iperf3", "roaming", "client",
        ]
        let (report, status, output) = await run { report in
            #expect(report.json.names == names)
            for line in ["without\tiperf3\tnot installed", "pings\tping.ipv4\t2\t1\t0.5\t0.5\t0.5"] {
                report.show(line)
            }
        }
        #expect(status == 0 && output.contains("Summary\n"))
        report.show("fail\tinterrupted")
        #expect(report.json.names == names)
        #expect(report.json["iperf3"] == .null)
        #expect(report.json["ping"]?["ipv4"]?["lost"] == .integer(1))
        #expect(report.json["ok"] == false)
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
        view.finish("x", isFailure: true)
        view.show(["x"])
        #expect(captured.output.isEmpty)
        DemoView(.plain, console: captured.console()).finish("why", isFailure: true)
        #expect(captured.output.hasPrefix("FAILED"))
    }
}
