// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Foundation

/// Whole tunnels under iperf3 and ping, culvert-wg and another daemon in turns.
enum TunnelComparison {
    static let usage = """
        culvert-bench tunnel: culvert-wg beside another WireGuard daemon, each in two network namespaces of its own

        usage: culvert-bench tunnel [--seconds T] [--rounds N] [--pings N] [--baseline PROGRAM] [--json] CULVERT_WG

          --seconds T         length of each transfer (5)
          --rounds N          rounds; in each, both daemons take their turn at everything (3)
          --pings N           pings in each direction (1000)
          --baseline PROGRAM  the other daemon (wireguard-go); "none" to measure culvert-wg alone
          --json              JSON in place of the table

        Needs root, ip, wg, iperf3 and ping. Both ends of a tunnel and iperf3 share this machine's cores, so the rates are
        those of the whole machine; what says most is the ratio within one run.
        """

    struct Plan {
        var seconds = 5
        var rounds = 3
        var pings = 1000
        var baseline = "wireguard-go"
        var isJSON = false
        var daemon = ""
    }

    static func run(_ arguments: [String]) throws {
        guard let plan = try parse(arguments) else {
            print(usage)
            return
        }
        guard getuid() == 0 else { throw BenchmarkError("comparing tunnels needs root") }
        var tunnels = [Tunnel(name: "culvert-wg", tag: "x")]
        var daemons = [plan.daemon]
        if plan.baseline != "none" {
            tunnels.append(Tunnel(name: (plan.baseline as NSString).lastPathComponent, tag: "y"))
            daemons.append(plan.baseline)
        }
        let cleaner = Cleaner(tunnels)
        // One round takes four transfers' time and what surrounds them.
        let bound = 60 + plan.rounds * tunnels.count * (3 * (plan.seconds + 5) + plan.pings / 100 + 20)
        cleaner.armed(bound: bound)
        defer { cleaner.clean() }

        for (tunnel, daemon) in zip(tunnels, daemons) { try tunnel.start(daemon: daemon) }
        var table = SampleTable()
        for tunnel in tunnels { table.add("Peak memory, idle", tunnel, .megabytes, tunnel.peakMemory) }
        for round in 1...plan.rounds {
            for tunnel in tunnels {
                Program.complain("round \(round) of \(plan.rounds): \(tunnel.name)")
                try measure(tunnel, plan, &table)
            }
        }
        for tunnel in tunnels { table.add("Peak memory, after all", tunnel, .megabytes, tunnel.peakMemory) }
        let rows = table.rows
        if plan.isJSON {
            try Report.printJSON(rows)
        } else {
            print(Machine.present.line)
            print("\(plan.rounds) rounds, transfers of \(plan.seconds) s, \(plan.pings) pings each way")
            Report.printTable(rows)
        }
    }

    private static func measure(_ tunnel: Tunnel, _ plan: Plan, _ table: inout SampleTable) throws {
        let there = try tunnel.ping(from: 0, count: plan.pings)
        let back = try tunnel.ping(from: 1, count: plan.pings)
        table.add("Ping without load, mean of both ways", tunnel, .milliseconds, (there.mean + back.mean) / 2)
        table.add("Ping without load, lost", tunnel, .percent, (there.lost + back.lost) / 2)
        let tcp = try tunnel.transfer(seconds: plan.seconds)
        table.add("TCP, one stream", tunnel, .gigabitsPerSecond, tcp.received)
        table.add("TCP, one stream, CPU time of both daemons", tunnel, .secondsPerGigabyte, tcp.cost)
        let reverse = try tunnel.transfer(seconds: plan.seconds, reverse: true)
        table.add("TCP, one stream, reverse", tunnel, .gigabitsPerSecond, reverse.received)
        let udp = try tunnel.transfer(seconds: plan.seconds, udp: true)
        table.add("UDP, 1300 bytes, received", tunnel, .gigabitsPerSecond, udp.received)
        table.add("UDP, 1300 bytes, lost of what an unpaced sender offers", tunnel, .percent, udp.lost)
    }

    private static func parse(_ arguments: [String]) throws -> Plan? {
        var plan = Plan()
        var rest = arguments[...]
        func number(_ name: String) throws -> Int {
            guard let value = rest.popFirst().flatMap({ Int($0) }), (1...100_000).contains(value) else {
                throw UsageError(message: "\(name) needs a number from 1")
            }
            return value
        }
        while let argument = rest.popFirst() {
            switch argument {
            case "-h", "--help": return nil
            case "--seconds": plan.seconds = try number(argument)
            case "--rounds": plan.rounds = try number(argument)
            case "--pings": plan.pings = try number(argument)
            case "--json": plan.isJSON = true
            case "--baseline":
                guard let program = rest.popFirst() else { throw UsageError(message: "--baseline needs a program") }
                plan.baseline = program
            default:
                guard !argument.hasPrefix("-"), plan.daemon.isEmpty else {
                    throw UsageError(message: "unknown argument '\(argument)'")
                }
                plan.daemon = URL(fileURLWithPath: argument).path
            }
        }
        guard !plan.daemon.isEmpty else { throw UsageError(message: "the path of culvert-wg is missing") }
        guard FileManager.default.isExecutableFile(atPath: plan.daemon) else {
            throw BenchmarkError("\(plan.daemon) is no program")
        }
        return plan
    }
}

/// Samples by figure and daemon, in the order they first came in.
private struct SampleTable {
    private var order: [(figure: String, unit: Unit)] = []
    private var names: [String] = []
    private var samples: [String: [String: [Double]]] = [:]

    mutating func add(_ figure: String, _ tunnel: Tunnel, _ unit: Unit, _ value: Double) {
        if samples[figure] == nil { order.append((figure, unit)) }
        if !names.contains(tunnel.name) { names.append(tunnel.name) }
        samples[figure, default: [:]][tunnel.name, default: []].append(value)
    }

    /// A part for each figure: a row for each daemon, and the ratio where there are two.
    var rows: [Row] {
        order.flatMap { figure, unit -> [Row] in
            var rows = names.map { Row(figure, $0, unit, samples: samples[figure]?[$0] ?? []) }
            if rows.count == 2, rows[1].median > 0, unit != .percent {
                rows.append(
                    Row(figure, "\(names[0]) / \(names[1])", .ratio, samples: [rows[0].median / rows[1].median]))
            }
            return rows
        }
    }
}

/// Takes everything down once: at the end, on a signal, or when the time is up.
private final class Cleaner: @unchecked Sendable {
    // Unchecked: what may run twice is guarded by the lock.
    private let lock = NSLock()
    private var tunnels: [Tunnel]
    private var sources: [any DispatchSourceSignal] = []

    init(_ tunnels: [Tunnel]) { self.tunnels = tunnels }

    func armed(bound: Int) {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [self] in
                clean()
                exit(128 + number)
            }
            source.resume()
            sources.append(source)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(bound)) { [self] in
            Program.complain("not done after \(bound) s: giving up")
            clean()
            exit(1)
        }
    }

    func clean() {
        lock.lock()
        defer { lock.unlock() }
        for tunnel in tunnels { tunnel.stop() }
        tunnels = []
    }
}
