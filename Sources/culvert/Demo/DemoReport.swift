// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// All figures of a demonstration.
struct DemoReport {
    struct Roaming {
        var oldPort: UInt16
        var newPort: UInt16
        /// The client's port as the server sees it.
        var seenPort: UInt16
        var newHandshakes: UInt64
        var pings: Pings
    }

    /// What one end has counted at the end.
    struct End {
        var publicKey: PublicKey
        var port: UInt16
        var engine: EngineStatistics
        var lane: LaneStatistics
        var injectionsDropped: Int
        /// Bytes of WireGuard datagrams.
        var sentBytes: UInt64 = 0
        var receivedBytes: UInt64 = 0
    }

    var handshake: Duration?
    var pingsV4: Pings?
    var pingsV6: Pings?
    var upload: BulkTransfer.Result?
    var download: BulkTransfer.Result?
    var roaming: Roaming?
    /// The time of the handshake with the pre-shared key.
    var presharedHandshake: Duration?
    var client: End?
    var server: End?
    var elapsed: Duration = .zero
    /// The most memory that this process has had at a time, both devices, hosts and generators included.
    var peakResidentBytes = 0
    var failure: String?
}

// MARK: - Drops

extension DemoReport {
    /// A reason for dropping packets, and how often it came up.
    struct Drop: Equatable {
        var cause: String
        var client: UInt64
        var server: UInt64
        /// Why some were to be expected; nil when none was.
        var explanation: String?

        var isUnexplained: Bool { client + server > 0 && explanation == nil }
    }

    /// Every reason for dropping packets.
    var drops: [Drop] {
        guard let client, let server else { return [] }
        func drop(_ cause: String, _ count: (End) -> UInt64, because explanation: String? = nil) -> Drop {
            let counts = (count(client), count(server))
            return Drop(
                cause: cause, client: counts.0, server: counts.1,
                explanation: counts.0 + counts.1 > 0 ? explanation : nil)
        }
        let presharedKey = presharedHandshake == nil ? nil : "on purpose: tried without the pre-shared key"
        return [
            drop("malformed datagrams", { $0.engine.malformedDatagrams }),
            drop("wrong mac1", { $0.engine.invalidMac1 }),
            drop("rejected handshakes", { $0.engine.rejectedHandshakes }, because: presharedKey),
            drop("rate limited", { $0.engine.rateLimited + $0.engine.initiationFloods }),
            drop("unknown session", { $0.engine.unknownSession }, because: presharedKey),
            drop("not authentic", { $0.engine.authenticationFailures }),
            drop("replayed", { $0.engine.replayed }),
            drop("malformed packets", { $0.engine.malformedPackets }),
            drop("source not allowed", { $0.engine.disallowedSource }),
            drop("no route or endpoint", { $0.engine.noRoute + $0.engine.noEndpoint }),
            drop("queue for a session", { $0.engine.stagedDropped }, because: presharedKey),
            drop("queue of handshakes", { $0.engine.outboxDropped }),
            drop("TUN", { UInt64(clamping: $0.lane.droppedByDevice + $0.injectionsDropped) }),
            drop("UDP", { UInt64(clamping: $0.lane.droppedByNetwork + $0.lane.droppedWithoutSocket) }),
        ]
    }
}

// MARK: - Text

extension DemoReport {
    static func text(_ transfer: BulkTransfer.Result) -> String {
        "\(Figure.rate(transfer.bitsPerSecond)): \(Figure.bytes(transfer.bytes)) in "
            + "\(Figure.grouped(transfer.received)) packets, \(Figure.seconds(transfer.elapsed)), "
            + "\(Figure.grouped(transfer.lost)) lost, \(Figure.grouped(transfer.damaged)) damaged"
    }

    /// The closing summary.
    var summary: [String] {
        var summary = DemoSummary()
        summary.add("first packet, handshake", handshake.map(Figure.milliseconds))
        summary.addLost(pingsV4, pingsV6)
        summary.add("client to server", upload.map { Figure.rate($0.bitsPerSecond) })
        summary.add("server to client", download.map { Figure.rate($0.bitsPerSecond) })
        summary.add("every byte compared", upload.flatMap { up in download.map { Figure.bytes(up.bytes + $0.bytes) } })
        summary.add("handshake, new preshared", presharedHandshake.map(Figure.milliseconds))
        summary.add("peak resident memory", Figure.bytes(peakResidentBytes))
        summary.add("time", Figure.seconds(elapsed))
        return summary.lines + (client == nil ? [] : [""] + table.lines.map { "  " + $0 })
    }

    private var table: TextTable {
        var table = TextTable(["", "client", "server"])
        guard let client, let server else { return table }
        func row(_ name: String, _ value: (End) -> UInt64) {
            table.add([name, Figure.grouped(value(client)), Figure.grouped(value(server))])
        }
        row("handshakes completed") { $0.engine.handshakesCompleted }
        row("packets sealed") { $0.engine.packetsSent }
        row("packets opened") { $0.engine.packetsReceived }
        row("datagrams sent") { UInt64(clamping: $0.lane.toNetwork.packets) }
        row("datagrams per batch sent") {
            UInt64(clamping: $0.lane.toNetwork.packets / max($0.lane.toNetwork.batches, 1))
        }
        row("endpoint changes seen") { $0.engine.endpointChanges }
        var isAnyDropped = false
        for drop in drops where drop.client + drop.server > 0 {
            isAnyDropped = true
            let note = drop.explanation.map { " (\($0))" } ?? ""
            table.add([
                "dropped, \(drop.cause)\(note)", Figure.grouped(drop.client), Figure.grouped(drop.server),
            ])
        }
        if !isAnyDropped { table.add(["dropped, all \(drops.count) causes", "0", "0"]) }
        return table
    }
}
