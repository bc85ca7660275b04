// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import DemoSupport
import NetworkAddresses
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// Two whole WireGuard devices in this process, over real UDP on the loopback interface.
///
/// Nothing polls: each step waits for a packet, with a deadline.
final class Demo {
    /// The amount of work.
    struct Plan {
        /// The echo requests of each series.
        var pings = 100
        /// The time of each of the two bulk transfers.
        var transfer: Duration = .seconds(3)
    }

    /// A reason for dropping packets, and the number of packets.
    struct Drop {
        var cause: String
        var client: UInt64
        var server: UInt64
        /// The reason why drops were expected, or `nil`.
        var explanation: String?

        var isUnexplained: Bool { client + server > 0 && explanation == nil }
    }

    private let plan: Plan
    private let view: DemoView
    private(set) var report = DemoReport()
    private(set) var drops: [Drop] = []
    private var table: [String] = []

    init(plan: Plan, view: DemoView) { (self.plan, self.view) = (plan, view) }

    /// Runs all steps. The report and the view have the error, if there is one.
    func run() {
        view.open("Two WireGuard devices in one process, over UDP on 127.0.0.1 (MTU \(DemoEnd.mtu), no root)")
        do throws(DemoFailure) { try runSteps() } catch {
            report.failure = error.description
            view.fail(error.description)
        }
        let memory = ProcessMemory.peakResidentBytes
        report["peakResidentBytes"] = .integer(memory)
        report.summarize("peak resident memory", Figure.bytes(memory))
        report.close()
        if report.failure == nil { view.show(report.summary + [""] + table) }
    }

    private func runSteps() throws(DemoFailure) {
        view.begin("devices")
        let client = try DemoEnd("client", number: 2)
        defer { client.device.close() }
        let server = try DemoEnd("server", number: 1)
        defer { server.device.close() }
        defer { collect(client, server) }
        try start(client, server)
        try view.step("handshake") { () throws(DemoFailure) in
            let text = Figure.milliseconds(try handshake("handshake", "first packet, handshake", client, server))
            return "\(text) from the first packet to its delivery: initiation, response, data"
        }
        try client.host.showPings(plan.pings, to: server.host, view, &report)
        let bytes = try client.host.showTransfers(
            with: server.host, mtu: DemoEnd.mtu, for: plan.transfer, view, &report)
        report.summarize("every byte compared", Figure.bytes(bytes))
        try view.step("roaming") { () throws(DemoFailure) in try roam(client, server) }
        try view.step("pre-shared key") { () throws(DemoFailure) in try changePresharedKey(client, server) }
        collect(client, server)
        let unexplained = drops.filter(\.isUnexplained)
        guard unexplained.isEmpty else {
            let list = unexplained.map { "\($0.cause) (\($0.client + $0.server))" }.joined(separator: ", ")
            throw DemoFailure("packets were dropped for no good reason: \(list)")
        }
    }

    // MARK: - Steps

    private func start(_ client: DemoEnd, _ server: DemoEnd) throws(DemoFailure) {
        try DemoEnd.wrap { () throws(WireGuardDeviceError) in
            try server.device.start()
            try client.device.start()
        }
        guard let serverPort = server.device.listenPort, let clientPort = client.device.listenPort else {
            throw DemoFailure("no UDP port could be bound")
        }
        try server.apply([client.peer()], key: server.privateKey)
        try client.apply([server.peer(port: serverPort)], key: client.privateKey)
        view.finish(
            "client \(client.publicKey) on port \(clientPort), server \(server.publicKey) on port \(serverPort)")
    }

    private func handshake(
        _ figure: String, _ line: String, _ client: DemoEnd, _ server: DemoEnd
    ) throws(DemoFailure) -> Duration {
        let time = try client.host.firstPacket(to: server.host, identifier: figure == "handshake" ? 1 : 6).delivery
        report[figure] = .decimal(time.milliseconds, places: 4)
        report.summarize(line, Figure.milliseconds(time))
        return time
    }

    private func roam(_ client: DemoEnd, _ server: DemoEnd) throws(DemoFailure) -> String {
        func initiations() -> UInt64 {
            client.device.engineStatistics.initiationsSent + server.device.engineStatistics.initiationsSent
        }
        func seenPort() -> UInt16 { server.device.peer(client.publicKey)?.endpoint?.port ?? 0 }
        let (oldPort, before) = (seenPort(), initiations())
        try DemoEnd.wrap { () throws(WireGuardDeviceError) in try client.device.rebind() }
        let newPort = client.device.listenPort ?? 0
        guard newPort != oldPort else { throw DemoFailure("the client was given port \(oldPort) again") }
        let pings = try client.host.pings(plan.pings, to: server.host, identifier: 4)
        let handshakes = initiations() - before
        report["roaming"] = Self.roaming(oldPort, newPort, seen: seenPort(), handshakes: handshakes, pings)
        guard seenPort() == newPort else {
            throw DemoFailure("the server sends to port \(seenPort()), but the client moved to \(newPort)")
        }
        guard handshakes == 0 else { throw DemoFailure("the session did not outlive the move") }
        return "client moved from port \(oldPort) to \(newPort), the server followed, no new handshake; "
            + "\(pings.answered) of \(pings.sent) pings answered"
    }

    private func changePresharedKey(_ client: DemoEnd, _ server: DemoEnd) throws(DemoFailure) -> String {
        var generator = SystemRandomNumberGenerator()
        let (key, port) = (PresharedKey(using: &generator), server.device.listenPort)
        var forget = UAPIPeerUpdate(publicKey: server.publicKey)
        forget.remove = true
        // The server alone has it: a new handshake must fail.
        try server.apply([client.peer(key)])
        try client.apply([forget, server.peer(port: port)])
        view.progress("without it on one side")
        guard try client.host.ping(server.host, identifier: 5, within: .milliseconds(300)) == nil else {
            throw DemoFailure("a ping was answered although the pre-shared keys differ")
        }
        try client.apply([forget, server.peer(key, port: port)])
        let text = Figure.milliseconds(try handshake("presharedKey", "handshake, new preshared", client, server))
        return "no answer while only the server had it; with it on both sides \(text)"
    }

    // MARK: - Report

    private func collect(_ client: DemoEnd, _ server: DemoEnd) {
        (report["client"], report["server"]) = (client.json(peer: server), server.json(peer: client))
        let wasRefused = report["presharedKey"] != .null
        drops = zip(client.drops, server.drops).map { one, other in
            let isExplained = wasRefused && one.count + other.count > 0
            return Drop(
                cause: one.cause, client: one.count, server: other.count,
                explanation: isExplained ? one.explanation : nil)
        }
        var lines = TextTable(["", "client", "server"])
        for (one, other) in zip(client.rows, server.rows) {
            lines.add([one.name, Figure.grouped(one.count), Figure.grouped(other.count)])
        }
        let some = drops.filter { $0.client + $0.server > 0 }
        for drop in some {
            let note = drop.explanation.map { " (\($0))" } ?? ""
            lines.add(["dropped, \(drop.cause)\(note)", Figure.grouped(drop.client), Figure.grouped(drop.server)])
        }
        if some.isEmpty { lines.add(["dropped, all \(drops.count) causes", "0", "0"]) }
        table = lines.lines.map { "  " + $0 }
    }

    static func roaming(
        _ oldPort: UInt16, _ newPort: UInt16, seen: UInt16, handshakes: UInt64, _ pings: Pings
    ) -> JSON {
        [
            "oldPort": .integer(oldPort), "newPort": .integer(newPort), "seenPort": .integer(seen),
            "newHandshakes": .integer(handshakes), "ping": pings.json,
        ]
    }

    /// The figures as one document.
    static func json(_ report: DemoReport, _ drops: [Drop]) -> JSON {
        func time(_ name: String, _ members: (JSON) -> JSON) -> JSON {
            report[name] == .null ? .null : members(report[name])
        }
        return report.document(
            mode: "memory", first: [("mtu", .integer(DemoEnd.mtu))],
            [
                "handshake": time("handshake") { ["milliseconds": $0] },
                "ping": ["ipv4": report["ipv4"], "ipv6": report["ipv6"]],
                "transfer": ["upload": report["upload"], "download": report["download"]],
                "roaming": report["roaming"],
                "presharedKey": time("presharedKey") { ["refusedWithoutIt": true, "handshakeMilliseconds": $0] },
                "client": report["client"], "server": report["server"],
                "drops": .array(
                    drops.map { drop in
                        [
                            "cause": .string(drop.cause), "client": .integer(drop.client),
                            "server": .integer(drop.server),
                            "explanation": drop.explanation.map { .string($0) } ?? .null,
                        ]
                    }),
                "peakResidentBytes": report.number("peakResidentBytes"),
            ])
    }

    /// The figures of `--tun`, which namespaces.sh reports, as one document.
    static func json(namespaces report: DemoReport) -> JSON {
        report.document(
            mode: "namespaces",
            [
                "firstPing": report["firstPing"], "ping": ["ipv4": report["ipv4"], "ipv6": report["ipv6"]],
                "iperf3": report["iperf3"] == false
                    ? .null : ["upload": report["upload"], "download": report["download"]],
                "roaming": report["newPort"] == .null ? .null : ["newPort": report["newPort"]],
                "client": ["bytesSent": report.number("sentBytes"), "bytesReceived": report.number("receivedBytes")],
            ])
    }
}
