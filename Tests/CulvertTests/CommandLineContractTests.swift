// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CommandLineTesting
import CredentialTunnel
import Foundation
import Logging
import NetworkAddresses
import Testing
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

@testable import DemoSupport
@testable import PacketTunnel
@testable import Provisioning
@testable import WireGuardTunnel
@testable import culvert

@Suite("Contract of culvert")
struct CommandLineContractTests {
    @Test("docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert")
    func culvert() async throws {
        var contract = try ProgramContract(dump: Culvert._dumpHelp())
        try addStatus(to: &contract)
        try await addDemo(to: &contract)
        try addKeys(to: &contract)
        try addLog(to: &contract)
        try await ProfileContract().add(to: &contract)
        try addFiles(to: &contract)
        let problems = try contract.check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }

    @Test("docs/command-line.txt has the arguments, variables and exit statuses of culvert-wg")
    func daemon() throws {
        let problems = try ProgramContract("culvert-wg", DaemonFacts.all).check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }

    private func output(_ body: (Console) throws -> Void) rethrows -> String {
        let captured = CapturedConsole()
        try body(captured.console())
        return captured.output
    }

    // MARK: - status

    private func addStatus(to contract: inout ProgramContract) throws {
        let id = try #require(RandomID(String(repeating: "a", count: 26)))
        var full = TunnelSnapshot(name: "wg0", report: Samples.report())
        full.rates = TunnelSnapshot.Rates(received: 8000, sent: 1)
        full.heldPolicy = .everything
        full.report?.profile = "home"
        full.report?.lastRepair = "firewall table culvert_wg0"
        full.report?.aeadRejection = "another version is installed"
        full.report?.problems = [.init(what: "the firewall: nft has not answered yet", since: 1_800_000_000)]
        full.report?.excludedRoutes = ["192.0.2.1/32"]
        full.report?.status.error = TunnelError(.connectivityLost, "gone", fix: "wait")
        full.report?.enrolment = EnrolmentStatusRequest.Reply(
            deviceID: id, deviceName: "laptop", user: "anna", publicKey: Samples.peerKey, addresses: [], routes: [],
            dns: [], searchDomains: [], mtu: 1420, serverKey: Samples.peerKey, endpoint: "192.0.2.1:51820",
            keepaliveSeconds: 25, expiresInSeconds: 60, givenSecondsAgo: 1)
        var least = TunnelSnapshot(name: "wg1", report: Samples.report(wireGuard: nil))
        least.report?.publicKey = nil
        least.report?.peers[0].endpoint = nil
        least.report?.enrolment = full.report?.enrolment
        least.report?.enrolment?.expiresInSeconds = nil
        var unbound = full
        unbound.report?.wireGuard?.listenPort = nil
        unbound.report?.wireGuard?.peers[0].lastHandshakeAge = nil
        let gone = TunnelSnapshot(name: "wg2")
        let login = TunnelSnapshot(name: "login0", report: Samples.report(login: Samples.login()))
        let all = [full, least, unbound, gone, login]
        try contract.add(
            "culvert status --json", open: ["tunnels[].drops"],
            [output { StatusTool(runtime: RuntimeDirectory(path: "/nonexistent"), console: $0).show(all) }])
        let lines = output { console in
            let view = LineWatchView(console, json: true)
            for snapshot in all { view.show(snapshot) }
        }
        try contract.add("culvert status --watch --json", lines.split(separator: "\n").map(String.init))
    }

    // MARK: - config, demo, key and log

    private func addFiles(to contract: inout ProgramContract) throws {
        let files = [
            CheckedFile(name: "bad.conf", bytes: Array("ListenPort = 70000\n".utf8)),
            CheckedFile(path: "/nonexistent"),
        ]
        let text = output { _ = ConfigChecker(console: $0).check(files, json: true) }
        try contract.add("culvert config check --json", [text])
    }

    /// Figures of a short demonstration, of one without answers to its pings, and of one that has not begun.
    private func addDemo(to contract: inout ProgramContract) async throws {
        let view = DemoView(.silent, console: CapturedConsole().console())
        let none = DemoReport(view, Demo.members).json.text
        let report = DemoReport(view, Demo.members)
        var demo = Demo(transfer: .milliseconds(20))
        demo.pings = 2
        let status = await report.run { try await demo.show($0) }
        #expect(status == 0 && report.failure == nil)
        let full = report.json.text
        let unanswered = Pings(sent: 2, answered: 0)
        for path in ["ping.ipv4", "ping.ipv6"] { report.add(path, unanswered) }
        report["roaming.ping"] = unanswered.json
        report.show("fail\tno session")
        try contract.add("culvert demo --json", [full, report.json.text, none])

        let login = DemoReport(view, LoginDemo.members)
        let before = login.json.text
        let loginStatus = await login.run { try await LoginDemo(transfer: .zero).show($0) }
        #expect(loginStatus == 0 && login.failure == nil)
        let after = login.json.text
        login.show("fail\tno answer")
        try contract.add("culvert demo --login --json", [before, after, login.json.text])

        func lines(_ lines: [String]) -> String {
            let report = DemoReport(view, Demo.scriptMembers)
            for line in lines { report.show(line) }
            return report.json.text
        }
        let series = ["firstPing", "ping.ipv4", "ping.ipv6"]
        let transfers = ["iperf3.upload", "iperf3.download"]
        let others = ["figure\troaming.newPort\t1", "traffic\tclient\t1\t1"]
        try contract.add(
            "culvert demo --tun --json",
            [
                lines(
                    series.map { "pings\t\($0)\t1\t1\t1\t1\t1" } + transfers.map { "transfer\t\($0)\tup\t1\t1" }
                        + others),
                lines(series.map { "pings\t\($0)\t1\t0" } + transfers.map { "transfer\t\($0)\tup\t1" } + others),
                lines(["without\tiperf3\tnot installed", "fail\tno session"]), lines([]),
            ])
    }

    private func addKeys(to contract: inout ProgramContract) throws {
        try contract.add("culvert key generate --json", [output { _ = KeyTool(console: $0).generate(json: true) }])
        try contract.add("culvert key preshared --json", [output { _ = KeyTool(console: $0).preshared(json: true) }])
        let key = Array(Samples.privateKey.utf8)
        try contract.add(
            "culvert key public --json", [output { _ = KeyTool(console: $0).publicKey(of: key, json: true) }])
    }

    private func addLog(to contract: inout ProgramContract) throws {
        let tool = LogTool(
            runtime: RuntimeDirectory(path: "/nonexistent"), console: CapturedConsole().console(), json: true)
        let plain = LogRecord(time: 0, level: .info, origin: .daemon, processID: 1, label: "wg0", message: "x")
        var full = plain
        full.fields = [LogRecord.Field("peer", "1")]
        full.isCut = true
        try contract.add("culvert log --json", open: ["metadata"], [plain, full].map(tool.line))
    }
}
