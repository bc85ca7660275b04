// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import WireGuardCore

/// One daemon with many peers, which are engines of one other process behind a wire. It measures handshakes and how evenly
/// the daemon serves load.
enum PeerCrowdComparison {
    private static let handshakePeers = 1_000
    private static let spreadPeers = 100

    static func handshakes(
        _ contenders: [Contender], _ plan: TunnelPlan, _ cleaner: Cleaner, _ table: inout SampleTable
    ) throws {
        let ends = try start(contenders, peers: handshakePeers, tags: ["h", "i", "j", "k"], cleaner)
        for end in ends { table.add(.memoryPerPeer, end.contender.name, end.memoryPerPeer) }
        try inTurns(ends, rounds: plan.rounds, "handshakes") { end in
            let before = ProcessFigures.processorTime(of: end.daemon)
            let seconds = min(plan.seconds, 3)
            let text = try Shell.run(
                end.crowd(HandshakeLoad.command, seconds: seconds), timeout: Double(seconds) + 20)
            let used = ProcessFigures.processorTime(of: end.daemon) - before
            let fields = text.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
            guard fields.count >= 4, fields[0] > 0, fields[1] > 0 else {
                throw BenchmarkError("\(end.contender.name) completes no handshake: \(text)")
            }
            Program.note("\(Int(fields[0])) handshakes, \(Int(fields[2])) cookies, \(Int(fields[3])) given up")
            table.add(.handshakes, end.contender.name, fields[0] / fields[1])
            table.add(.handshakeCost, end.contender.name, used / fields[0] * 1e6)
        }
        cleaner.clean()
    }

    static func spread(
        _ contenders: [Contender], _ plan: TunnelPlan, _ cleaner: Cleaner, _ table: inout SampleTable
    ) throws {
        let ends = try start(contenders, peers: spreadPeers, tags: ["l", "m", "n", "o"], cleaner)
        try inTurns(ends, rounds: plan.rounds, "spread over \(spreadPeers) peers") { end in
            let load = try Shell.start(
                end.crowd(SpreadLoad.command, seconds: plan.seconds + 2), errors: FileHandle.standardError)
            defer { WireGuardDaemon.stop([load]) }
            // First all peers get sessions. Then all send for a while.
            usleep(1_000_000)
            let (before, began) = (try end.receivedBytes(), nanoseconds())
            let usedBefore = ProcessFigures.processorTime(of: end.daemon)
            usleep(UInt32(plan.seconds) * 1_000_000)
            let used = ProcessFigures.processorTime(of: end.daemon) - usedBefore
            let (after, ended) = (try end.receivedBytes(), nanoseconds())
            let time = Double(ended - began) / 1e9
            let rates = after.map { key, bytes in (bytes - (before[key] ?? 0)) * 8 / time / 1e6 }.sorted()
            let sum = rates.reduce(0, +)
            guard rates.count == spreadPeers, sum > 0 else {
                throw BenchmarkError("\(end.contender.name) receives nothing from \(spreadPeers) peers")
            }
            let name = end.contender.name
            table.add(.spreadLeast, name, rates[0])
            table.add(.spreadMedian, name, (rates[(rates.count - 1) / 2] + rates[rates.count / 2]) / 2)
            table.add(.spreadGreatest, name, rates[rates.count - 1])
            table.add(.spreadTotal, name, sum / 1000)
            // The sum is in Mbit/s.
            table.add(.spreadCost, name, used / (sum * time / 8 / 1000))
            let squares = rates.reduce(0) { $0 + $1 * $1 }
            table.add(.spreadIndex, name, sum * sum / (Double(rates.count) * squares))
        }
        cleaner.clean()
    }

    private static func inTurns(
        _ ends: [CrowdedDaemon], rounds: Int, _ what: String, _ body: (CrowdedDaemon) throws -> Void
    ) throws {
        for round in 0..<rounds {
            for index in ends.indices {
                let end = ends[(index + round) % ends.count]
                Program.note("round \(round + 1) of \(rounds): \(what), \(end.contender.name)")
                try body(end)
            }
        }
    }

    private static func start(
        _ contenders: [Contender], peers: Int, tags: [String], _ cleaner: Cleaner
    ) throws -> [CrowdedDaemon] {
        try zip(contenders, tags).map { contender, tag in
            let end = try CrowdedDaemon(contender, peers: peers, tag: tag)
            cleaner.atEnd { end.stop() }
            try end.start()
            return end
        }
    }
}

/// A daemon on side 0 with a crowd of peers for side 1.
private final class CrowdedDaemon {
    let contender: Contender
    private(set) var daemon = Process()
    /// The anonymous memory in KiB per peer that configuring the peers added. (A daemon releases pages of its program
    /// meanwhile.)
    private(set) var memoryPerPeer = Double.nan
    private let pair: NamespacePair
    private let setting: WireGuardSetting
    private let publicKey: String
    private let peers: Int

    init(_ contender: Contender, peers: Int, tag: String) throws {
        self.contender = contender
        self.peers = peers
        pair = NamespacePair(tag: tag)
        let key = WireGuardSetting.newKey()
        publicKey = try WireGuardSetting.publicKey(of: key).base64
        setting = WireGuardSetting(
            privateKey: key,
            peers: try (0..<peers).map { number in
                .init(
                    key: try WireGuardSetting.publicKey(of: PeerCrowd.key(number)),
                    allowedIPs: "\(PeerCrowd.text(PeerCrowd.insideNetwork + UInt32(number)))/32")
            })
    }

    func start() throws {
        try pair.make()
        // Each peer has its own address, because limits apply to each source.
        let network = "\(PeerCrowd.text(PeerCrowd.outsideNetwork & 0xffff_0000))/16"
        try pair.ip(1, "route", "add", "local", network, "dev", "lo")
        try pair.ip(0, "route", "add", network, "via", NamespacePair.outside[1])
        daemon = try WireGuardDaemon.start(contender, side: 0, of: pair)
        try WireGuardDaemon.wait(for: daemon, contender.name, side: 0, of: pair)
        let before = ProcessFigures.memory(of: daemon, "RssAnon")
        try setting.apply(to: 0, of: pair)
        memoryPerPeer = (ProcessFigures.memory(of: daemon, "RssAnon") - before) * 1024 / Double(peers)
        try pair.bringUp(0)
    }

    /// The command that makes the crowd do something.
    func crowd(_ command: String, seconds: Int) -> [String] {
        pair.enter(1) + [
            Program.path, command, publicKey, NamespacePair.outside[0], String(WireGuardSetting.port), String(peers),
            String(seconds),
        ]
    }

    /// The bytes that the daemon received so far, by peer.
    func receivedBytes() throws -> [String: Double] {
        let text = try Shell.run(pair.enter(0) + ["wg", "show", pair.interfaces[0], "transfer"])
        var bytes: [String: Double] = [:]
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: "\t")
            guard fields.count >= 2, let received = Double(fields[1]) else { continue }
            bytes[String(fields[0])] = received
        }
        return bytes
    }

    func stop() {
        WireGuardDaemon.stop([daemon])
        pair.remove()
    }
}
