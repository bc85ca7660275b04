// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Foundation

/// Compares whole tunnels; the contenders take turns at every figure.
enum TunnelComparison {
    static let usage = """
        culvert-bench tunnel: culvert-wg beside other tunnels, each between two network namespaces of its own

        usage: culvert-bench tunnel [OPTIONS] CULVERT_WG

          --rounds N         rounds; in each, all contenders take their turn at every figure, in another order (5)
          --seconds T        length of each transfer (5)
          --pings N          pings per round without load; a fifth of that under load (1000)
          --quick            one round of one-second transfers, beside others only where an aim compares: shows that all
                             works; the figures are rough
          --aead NAME        culvert-wg with this implementation of ChaCha20-Poly1305, such as ipsec-mb, as a separate contender;
                             may be repeated; culvert-wg itself then has boringssl
          --beside PROGRAM   another daemon with wireguard-go's command line; may be repeated (wireguard-go); "none" for none
          --lanes LAYOUTS    culvert-wg beside itself in up to four layouts of threads, the first of which the others are compared
                             with: 1,2,2+0,4; without other daemons, unless --beside names some
          --baseline PROGRAM the C program of Benchmarks/Baseline; not measured when it is not given
          --culvert PROGRAM  culvert, for its start beside wg-quick's (the file next to CULVERT_WG)
          --only PARTS       some of: transfer, delay, start, up, handshakes, spread; with commas between
          --save FILE        writes the samples to FILE as JSON
          --json             JSON in place of the table

        Needs root, ip, wg, iperf3 and ping. Both ends of a tunnel and the load share this machine's cores, so rates are
        those of the whole machine; what says most is the ratio within one run.
        """

    static func run(_ arguments: [String]) throws {
        guard let plan = try TunnelPlan(arguments, for: .comparison) else {
            print(usage)
            return
        }
        try Tools.require(["ip", "iperf3", "ping", "wg", plan.daemon] + plan.beside)
        if let baseline = plan.baseline { try Tools.require([baseline]) }
        let cleaner = Cleaner(bound: plan.bound)
        defer { cleaner.clean() }
        var table = SampleTable()
        if plan.wants(.transfer) || plan.wants(.delay) { try measureTunnels(plan, cleaner, &table) }
        let daemons = plan.contenders.filter { $0.kind == .wireGuard }
        let compared = daemons.filter(plan.compares)
        if plan.wants(.start) { try StartUp.measure(compared, rounds: plan.rounds, cleaner, &table) }
        if plan.wants(.up) { try BringUp.measure(plan, cleaner, &table) }
        if plan.wants(.handshakes) { try PeerCrowdComparison.handshakes(daemons, plan, cleaner, &table) }
        if plan.wants(.spread) { try PeerCrowdComparison.spread(compared, plan, cleaner, &table) }

        let rows = table.rows
        let results = Results(
            title: "tunnel", settings: plan.description, programs: plan.versions, rows: rows)
        if let file = plan.saveTo { try results.save(to: file) }
        if plan.isJSON {
            print(try results.json)
        } else {
            print(Machine.present.line)
            print(plan.description)
            Report.printTable(rows)
        }
    }

    private static func measureTunnels(_ plan: TunnelPlan, _ cleaner: Cleaner, _ table: inout SampleTable) throws {
        let letters = ["x", "y", "z", "u", "v", "w"]
        let tunnels = zip(plan.contenders, letters).map { TunnelUnderTest($0, tag: $1) }
        for tunnel in tunnels {
            cleaner.atEnd { tunnel.stop() }
            try tunnel.start()
            guard tunnel.contender.kind != .copy else { continue }
            table.add(.memoryIdle, tunnel.name, tunnel.residentMemory)
        }
        for round in 0..<plan.rounds {
            // A rotation, so that no contender is always first, or always after the same other one.
            let order = tunnels.indices.map { tunnels[($0 + round) % tunnels.count] }
            for step in Step.allCases {
                for tunnel in order where step.isFor(tunnel.contender, plan) {
                    Program.note("round \(round + 1) of \(plan.rounds): \(step.rawValue), \(tunnel.name)")
                    measure(step, tunnel, plan, &table)
                }
            }
        }
        for tunnel in tunnels where tunnel.contender.kind != .copy {
            table.add(.memoryPeak, tunnel.name, tunnel.peakMemory)
        }
        cleaner.clean()
    }

    private enum Step: String, CaseIterable {
        case idle = "ping without load"
        case tcpOne = "TCP, one stream"
        case tcpFour = "TCP, four streams"
        case bothWays = "TCP, both directions"
        case loaded = "ping under load"
        case udp = "UDP, 1300 bytes"
        case smallPackets = "UDP, 64 bytes"

        /// The figures in the order of the table.
        func figures(of contender: Contender) -> [Figure] {
            switch self {
            case .idle: [.idleMedian, .idleLate]
            case .loaded: [.loadedMedian, .loadedLate]
            // A copy is one process, which is both ends.
            case .tcpOne where contender.kind == .copy: [.tcpOne, .costDaemons, .costMachine]
            case .tcpOne: [.tcpOne, .costSender, .costReceiver, .costDaemons, .costMachine]
            case .tcpFour: [.tcpFour, .reordered, .resent]
            case .bothWays: [.tcpBothWays]
            case .udp: [.udp, .udpLost]
            case .smallPackets: [.smallPackets, .smallPacketsLost]
            }
        }

        func isFor(_ contender: Contender, _ plan: TunnelPlan) -> Bool {
            guard contender.kind != .copy else { return self == .tcpOne && plan.wants(.transfer) }
            // Aims compare with the baseline, and the one stream with wireguard-go too.
            let isForAim = contender.kind == .baseline || plan.compares(contender)
            return switch self {
            case .idle, .loaded: plan.wants(.delay) && isForAim
            case .tcpOne: plan.wants(.transfer)
            case .udp: plan.wants(.transfer) && isForAim
            case .tcpFour, .bothWays, .smallPackets: plan.wants(.transfer) && plan.compares(contender)
            }
        }
    }

    /// Adds a sample of each figure of a step. A load may fail, above all where a flood starves what controls it: it gets
    /// three attempts, then this round has no figure.
    private static func measure(
        _ step: Step, _ tunnel: TunnelUnderTest, _ plan: TunnelPlan, _ table: inout SampleTable
    ) {
        var values: [Figure: Double] = [:]
        for attempt in 1...3 {
            do {
                values = try sample(step, tunnel, plan)
                break
            } catch {
                Program.note("\(tunnel.name), attempt \(attempt): \(error)")
                usleep(1_000_000)
            }
        }
        for figure in step.figures(of: tunnel.contender) { table.add(figure, tunnel.name, values[figure] ?? .nan) }
    }

    private static func sample(
        _ step: Step, _ tunnel: TunnelUnderTest, _ plan: TunnelPlan
    ) throws -> [Figure: Double] {
        let seconds = plan.seconds
        switch step {
        case .idle:
            let times = try tunnel.roundTrips(count: plan.pings, interval: 0.002)
            return [.idleMedian: percentile(50, of: times), .idleLate: percentile(99, of: times)]
        case .loaded:
            let times = try tunnel.roundTripsUnderLoad(count: max(plan.pings / 5, 20), interval: 0.01)
            return [.loadedMedian: percentile(50, of: times), .loadedLate: percentile(99, of: times)]
        case .tcpOne:
            let transfer = try tunnel.transfer(.tcp(streams: 1), seconds: seconds)
            return [
                .tcpOne: transfer.received, .costMachine: transfer.machine,
                .costDaemons: transfer.ends.reduce(0, +), .costSender: transfer.ends.first ?? .nan,
                .costReceiver: transfer.ends.last ?? .nan,
            ]
        case .tcpFour:
            let transfer = try tunnel.transfer(.tcp(streams: 4), seconds: seconds)
            return [.tcpFour: transfer.received, .reordered: transfer.reordered, .resent: transfer.resent]
        case .bothWays:
            return [.tcpBothWays: try tunnel.transfer(.bothWays, seconds: seconds).received]
        case .udp:
            let transfer = try tunnel.transfer(.udp(1300), seconds: seconds)
            return [.udp: transfer.received, .udpLost: transfer.lost]
        case .smallPackets:
            let packets = try tunnel.packets(byteCount: 64, seconds: seconds)
            return [.smallPackets: packets.rate, .smallPacketsLost: packets.lost]
        }
    }

    /// The value that this percentage of `sorted` does not exceed (nearest rank).
    static func percentile(_ percent: Int, of sorted: [Double]) -> Double {
        guard !sorted.isEmpty else { return .nan }
        let rank = (sorted.count * percent + 99) / 100
        return sorted[min(max(rank, 1), sorted.count) - 1]
    }
}
