// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import WireGuardCore

/// Compares a gateway that has rules for many clients with a tunnel that has none: TCP from a client to a host behind the
/// server. It also measures a change of one client's rules.
enum GatewayComparison {
    static let usage = """
        culvert-bench gateway: a gateway with rules for many clients beside a tunnel without firewall

        usage: culvert-bench gateway [OPTIONS] CULVERT_WG

          --rounds N         rounds; in each, both take their turn in both directions (5)
          --seconds T        length of each transfer (5)
          --clients N        clients with rules (10000)
          --quick            one round of one-second transfers and 100 clients: shows that all works
          --save FILE        writes the samples to FILE as JSON
          --json             JSON in place of the table

        Needs root, ip, nft, wg, iperf3 and ping.
        """

    private struct Plan {
        var rounds = 5
        var seconds = 5
        var clients = 10_000
        var saveTo: String?
        var isJSON = false
        var daemon = ""

        /// - Returns: `nil` if help was requested.
        init?(_ arguments: ArraySlice<String>) throws {
            var rest = arguments
            func number(upTo most: Int, _ name: String) throws -> Int {
                guard let value = rest.popFirst().flatMap({ Int($0) }), (1...most).contains(value) else {
                    throw UsageError(message: "\(name) needs a number from 1 to \(most)")
                }
                return value
            }
            while let argument = rest.popFirst() {
                switch argument {
                case "-h", "--help": return nil
                case "--quick": (rounds, seconds, clients) = (1, 1, 100)
                case "--rounds": rounds = try number(upTo: 100, argument)
                case "--seconds": seconds = try number(upTo: 60, argument)
                case "--clients": clients = try number(upTo: 10_000, argument)
                case "--json": isJSON = true
                case "--save": saveTo = rest.popFirst()
                default:
                    guard !argument.hasPrefix("-"), daemon.isEmpty else {
                        throw UsageError(message: "unknown argument '\(argument)'")
                    }
                    daemon = URL(fileURLWithPath: argument).path
                }
            }
            guard !daemon.isEmpty else { throw UsageError(message: "the path of culvert-wg is missing") }
        }
    }

    static func run(_ arguments: ArraySlice<String>) throws {
        guard let plan = try Plan(arguments) else {
            print(usage)
            return
        }
        try Tools.require(["ip", "nft", "iperf3", "ping", "wg", plan.daemon])
        let cleaner = Cleaner(bound: 180 + plan.rounds * 4 * (plan.seconds + 10))
        defer { cleaner.clean() }
        let paths = [
            GatewayPath(plan.daemon, tag: "g", clients: plan.clients), GatewayPath(plan.daemon, tag: "h", clients: nil),
        ]
        for path in paths {
            cleaner.atEnd { path.stop() }
            Program.note("starting \(path.name)")
            try path.start()
        }
        var rates: [String: [Double]] = [:]
        for round in 0..<(2 * plan.rounds) {
            // Up and down by turns; each path is first in every second pair of transfers.
            let order = round / 2 % 2 == 0 ? paths : paths.reversed()
            for path in order {
                Program.note("transfer \(round + 1) of \(2 * plan.rounds): \(path.name)")
                rates[path.name, default: []].append(
                    try path.throughput(seconds: plan.seconds, isReverse: round % 2 == 1))
            }
        }
        Program.note(GatewayFigure.change)
        let changes = try (0..<20).map { _ in try paths[0].changeRules() }
        let (with, without) = (rates[GatewayFigure.gateway] ?? [], rates[GatewayFigure.bare] ?? [])
        let rows = [
            Row(GatewayFigure.suite, GatewayFigure.gateway, .gigabitsPerSecond, samples: with),
            Row(GatewayFigure.suite, GatewayFigure.bare, .gigabitsPerSecond, samples: without),
            Row(GatewayFigure.suite, GatewayFigure.ratio, .ratio, samples: zip(with, without).map { $0 / $1 }),
            Row(GatewayFigure.suite, GatewayFigure.change, .milliseconds, samples: changes),
        ]
        let settings =
            "\(plan.clients) clients, \(plan.rounds) rounds in both directions, transfers of \(plan.seconds) s"
        let results = Results(title: "gateway", settings: settings, programs: [:], rows: rows)
        if let file = plan.saveTo { try results.save(to: file) }
        if plan.isJSON {
            print(try results.json)
        } else {
            print(Machine.present.line)
            print(settings)
            Report.printTable(rows)
        }
    }
}

/// A client, a server, and a host behind the server, each in a namespace.
private final class GatewayPath {
    let name: String
    private let daemon: String
    private let pair: NamespacePair
    /// The number of clients of a gateway; `nil` for a tunnel without firewall.
    private let clients: Int?
    private let far: String
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-bench-\(UUID())").path
    private var processes: [Process] = []
    private let (input, output) = (Pipe(), Pipe())

    private static let addresses = ["203.0.113.1", "203.0.113.2"]
    private static let network = "203.0.113.0/24"

    init(_ daemon: String, tag: String, clients: Int?) {
        (self.daemon, self.clients) = (daemon, clients)
        name = clients == nil ? GatewayFigure.bare : GatewayFigure.gateway
        pair = NamespacePair(tag: tag)
        far = pair.names[1] + "f"
    }

    func start() throws {
        try pair.make()
        try Shell.run(["ip", "netns", "add", far])
        try Shell.run([
            "ip", "link", "add", "name", "beyond", "netns", pair.names[1], "type", "veth", "peer", "name", "beyond",
            "netns", far,
        ])
        for (namespace, address) in zip([pair.names[1], far], Self.addresses) {
            try Shell.run(["ip", "-n", namespace, "address", "add", "\(address)/24", "dev", "beyond"])
            try Shell.run(["ip", "-n", namespace, "link", "set", "beyond", "up"])
        }
        if let clients { try startGateway(clients) } else { try startBare() }
        try startDaemon(0, GatewayEnd.clientKey, of: GatewayEnd.serverKey, allowed: "0.0.0.0/0")
        try pair.ip(0, "route", "add", Self.network, "dev", pair.interfaces[0])
        processes.append(try Shell.start(["ip", "netns", "exec", far, "iperf3", "-s", "-f", "k"]))
        for _ in 0..<10
        where (try? Shell.run(pair.enter(0) + ["ping", "-c", "1", "-W", "1", Self.addresses[1]])) != nil {
            return
        }
        throw BenchmarkError("\(name): no packets come through")
    }

    private func startGateway(_ clients: Int) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            pair.enter(1) + [Program.path, GatewayEnd.command, pair.interfaces[1], "\(clients)", folder]
        (process.standardInput, process.standardOutput) = (input, output)
        do { try process.run() } catch { throw BenchmarkError("cannot run the gateway's end: \(error)") }
        processes.append(process)
        guard try line() == "up" else { throw BenchmarkError("the gateway's end did not start") }
    }

    private func startBare() throws {
        try startDaemon(1, GatewayEnd.serverKey, of: GatewayEnd.clientKey, allowed: "\(NamespacePair.inside[0])/32")
        try Shell.run(pair.enter(1) + ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        try Shell.run(["ip", "-n", far, "route", "add", "\(NamespacePair.inside[0])/32", "via", Self.addresses[0]])
    }

    private func startDaemon(_ side: Int, _ key: Int, of other: Int, allowed: String) throws {
        let contender = Contender(name: name, kind: .wireGuard, program: daemon)
        let process = try WireGuardDaemon.start(contender, side: side, of: pair)
        processes.append(process)
        try WireGuardDaemon.wait(for: process, name, side: side, of: pair)
        let peer = WireGuardSetting.Peer(
            key: try WireGuardSetting.publicKey(of: PeerCrowd.key(other)), allowedIPs: allowed,
            endpoint: "\(NamespacePair.outside[1 - side]):\(WireGuardSetting.port)")
        try WireGuardSetting(privateKey: PeerCrowd.key(key), peers: [peer]).apply(to: side, of: pair)
        try pair.bringUp(side)
    }

    /// Gbit/s of one TCP stream to the host behind the server, or from it.
    func throughput(seconds: Int, isReverse: Bool) throws -> Double {
        let words = ["iperf3", "-c", Self.addresses[1], "-t", String(seconds), "-J"] + (isReverse ? ["-R"] : [])
        let text = try Shell.run(
            pair.enter(0) + words + TunnelUnderTest.Traffic.tcp(streams: 1).words, timeout: Double(seconds) + 15)
        return try TunnelUnderTest.read(text).received
    }

    /// Changes the rules of the client, in milliseconds.
    func changeRules() throws -> Double {
        input.fileHandleForWriting.write(Data("\n".utf8))
        let text = try line()
        guard let time = Double(text) else {
            throw BenchmarkError("the gateway's end did not change the rules: '\(text)'")
        }
        return time / 1000
    }

    /// The next line of the gateway's end, without its end.
    private func line() throws -> String {
        var bytes: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first {
            if byte == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        throw BenchmarkError("the gateway's end has ended")
    }

    func stop() {
        // The gateway's end stops at the end of its input.
        try? input.fileHandleForWriting.close()
        if clients != nil, let process = processes.first {
            for _ in 0..<500 where process.isRunning { usleep(10_000) }
        }
        WireGuardDaemon.stop(processes)
        processes = []
        _ = try? Shell.run(["ip", "netns", "delete", far])
        pair.remove()
        try? FileManager.default.removeItem(atPath: folder)
    }
}
