// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Divides the processor time of one gigabyte of TCP by kind of work, and counts events, for each tunnel.
enum ProfileComparison {
    static let usage = """
        culvert-bench where: the processor time of one gigabyte by kind of work, culvert-wg beside other tunnels

        usage: culvert-bench where [OPTIONS] CULVERT_WG

          --rounds N         rounds; in each, all contenders take their turn, in another order (3)
          --seconds T        length of the sampled transfer; the traced one takes 3 at most (10)
          --quick            one round of one-second transfers: shows that all works; the figures are rough
          --beside PROGRAM   another daemon with wireguard-go's command line; may be repeated
          --baseline PROGRAM the C program of Benchmarks/Baseline; not measured when it is not given
          --save FILE        writes the samples to FILE as JSON
          --json             JSON in place of the page

        Needs root, perf, ip, wg, iperf3 and ping. One TCP stream runs twice in each round: once while perf samples the stack of
        all processors, and once while it records system calls, switches and packets, which slows the tunnel down.
        """

    static func run(_ arguments: [String]) throws {
        guard let plan = try TunnelPlan(arguments, for: .profile) else {
            print(usage)
            return
        }
        try Tools.require(["ip", "iperf3", "ping", "wg", "unshare", "mount", plan.daemon] + plan.beside)
        if let baseline = plan.baseline { try Tools.require([baseline]) }
        try PerfRecorder.require()
        let counters = PerfRecorder.counters()
        let cleaner = Cleaner(bound: plan.bound)
        defer { cleaner.clean() }
        let table = try measure(plan, counters, cleaner)

        var settings = plan.description
        if counters.isEmpty { settings += "; instructions and cycles not counted: this machine does not count them" }
        let results = Results(title: ProfilePage.title, settings: settings, programs: plan.versions, rows: table.rows)
        if let file = plan.saveTo { try results.save(to: file) }
        print(plan.isJSON ? try results.json : results.profilePage)
    }

    private static func measure(
        _ plan: TunnelPlan, _ counters: [String], _ cleaner: Cleaner
    ) throws -> ProfileTable {
        let tunnels = zip(plan.contenders, ["x", "y", "z", "u", "v"]).map { TunnelUnderTest($0, tag: $1) }
        for tunnel in tunnels {
            cleaner.atEnd { tunnel.stop() }
            try tunnel.start()
        }
        var table = ProfileTable(contenders: tunnels.map(\.name))
        for round in 0..<plan.rounds {
            for index in tunnels.indices {
                let tunnel = tunnels[(index + round) % tunnels.count]
                let place = "round \(round + 1) of \(plan.rounds)"
                Program.note("\(place): sampled, \(tunnel.name)")
                var figures = try sample(tunnel, seconds: plan.seconds, counters)
                Program.note("\(place): traced, \(tunnel.name)")
                do {
                    figures += try trace(tunnel, seconds: min(plan.seconds, 3))
                } catch {
                    // The times are worth a page without the counts, which not every kernel offers.
                    Program.note("\(tunnel.name) was not traced: \(error)")
                }
                table.add(tunnel.name, figures)
            }
        }
        return table
    }

    private static func sample(
        _ tunnel: TunnelUnderTest, seconds: Int, _ counters: [String]
    ) throws -> [ProfileFigure] {
        let roles = try tunnel.roles
        let folder = try TemporaryFolder()
        var counted: [(part: String, process: Int?, file: String)] = []
        if !counters.isEmpty {
            counted = [
                (ProfileFigure.machine, nil, folder.file("machine")),
                (Place.sender.rawValue, roles.sender, folder.file("sender")),
                (Place.receiver.rawValue, roles.receiver, folder.file("receiver")),
            ]
        }
        let counting = counted.flatMap { PerfRecorder.counting(counters, of: $0.process, into: $0.file) }
        let file = folder.file("samples")
        let transfer = try tunnel.transfer(
            .tcp(streams: 1), seconds: seconds, under: counting + PerfRecorder.sampling(into: file))
        let profile = TimeProfile(try PerfRecorder.samples(in: file), roles)
        var figures = profile.figures(gigabytes: transfer.gigabytes)
        figures.append(
            ProfileFigure(ProfileFigure.machine, "throughput while sampled", .gigabitsPerSecond, transfer.received))
        for (part, _, file) in counted {
            let values = PerfScript.counters(try String(contentsOfFile: file, encoding: .utf8))
            figures += counters.map {
                ProfileFigure(part, $0, .billionPerGigabyte, (values[$0] ?? .nan) / 1e9 / transfer.gigabytes)
            }
        }
        return figures
    }

    private static func trace(_ tunnel: TunnelUnderTest, seconds: Int) throws -> [ProfileFigure] {
        let folder = try TemporaryFolder()
        let file = folder.file("events")
        let transfer = try tunnel.transfer(
            .tcp(streams: 1), seconds: seconds, under: PerfRecorder.tracing(EventCounts.tracepoints, into: file))
        let (events, lost) = try PerfRecorder.events(in: file)
        // A share of lost events this small changes no conclusion.
        guard lost < events.count / 100 else {
            throw BenchmarkError("perf lost \(lost) events and recorded \(events.count)")
        }
        let interfaces = tunnel.pair.interfaces
        let devices = EventCounts.Devices(
            senderTun: interfaces[0], receiverTun: interfaces[1], wire: NamespacePair.wire)
        let counts = EventCounts(events, try tunnel.roles, devices)
        return counts.figures(gigabytes: transfer.gigabytes) + [
            ProfileFigure(
                ProfileFigure.machine, "throughput while traced", .gigabitsPerSecond, transfer.received)
        ]
    }
}

extension TunnelUnderTest {
    /// The processes of a transfer from side 0 to side 1.
    fileprivate var roles: Roles {
        get throws {
            guard daemons.count == 2, let server else { throw BenchmarkError("\(name) does not run") }
            return Roles(
                sender: Int(daemons[0].processIdentifier), receiver: Int(daemons[1].processIdentifier),
                loadReceiver: Int(server.processIdentifier), loadCommand: "iperf3")
        }
    }
}
