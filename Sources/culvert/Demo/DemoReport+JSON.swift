// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelIO
import TunnelSystem
import WireGuardCore

/// The figures as one document.
extension DemoReport {
    var json: JSON {
        [
            "ok": .bool(failure == nil),
            "error": failure.map { .string($0) } ?? .null,
            "version": .string(programVersion),
            "mode": "memory",
            "mtu": .integer(DemoHost.mtu),
            "elapsedSeconds": .decimal(elapsed.milliseconds / 1000, places: 3),
            "handshake": handshake.map { ["milliseconds": milliseconds($0)] } ?? .null,
            "ping": ["ipv4": pingsV4?.json ?? .null, "ipv6": pingsV6?.json ?? .null],
            "transfer": ["upload": upload.map(document) ?? .null, "download": download.map(document) ?? .null],
            "roaming": roaming.map(document) ?? .null,
            "presharedKey": presharedHandshake.map {
                ["refusedWithoutIt": true, "handshakeMilliseconds": milliseconds($0)]
            } ?? .null,
            "client": client.map(document) ?? .null,
            "server": server.map(document) ?? .null,
            "drops": .array(
                drops.map { drop in
                    [
                        "cause": .string(drop.cause), "client": .integer(drop.client),
                        "server": .integer(drop.server),
                        "explanation": drop.explanation.map { .string($0) } ?? .null,
                    ]
                }),
            "peakResidentBytes": .integer(peakResidentBytes),
        ]
    }

    private func milliseconds(_ duration: Duration) -> JSON { .decimal(duration.milliseconds, places: 4) }

    private func document(_ transfer: BulkTransfer.Result) -> JSON {
        [
            "packetsSent": .integer(transfer.sent), "packetsReceived": .integer(transfer.received),
            "packetsLost": .integer(transfer.lost), "packetsDamaged": .integer(transfer.damaged),
            "packetsOutOfOrder": .integer(transfer.outOfOrder), "bytes": .integer(transfer.bytes),
            "seconds": .decimal(transfer.elapsed.milliseconds / 1000, places: 3),
            "megabitsPerSecond": .decimal(transfer.bitsPerSecond / 1e6, places: 1),
        ]
    }

    private func document(_ roaming: Roaming) -> JSON {
        [
            "oldPort": .integer(roaming.oldPort), "newPort": .integer(roaming.newPort),
            "seenPort": .integer(roaming.seenPort), "newHandshakes": .integer(roaming.newHandshakes),
            "ping": roaming.pings.json,
        ]
    }

    private func document(_ end: End) -> JSON {
        [
            "publicKey": .string(end.publicKey.base64), "port": .integer(end.port),
            "handshakesCompleted": .integer(end.engine.handshakesCompleted),
            "packetsSealed": .integer(end.engine.packetsSent), "packetsOpened": .integer(end.engine.packetsReceived),
            "datagramsSent": .integer(end.lane.toNetwork.packets),
            "datagramsReceived": .integer(end.lane.fromNetwork.packets),
            "sendBatches": .integer(end.lane.toNetwork.batches),
            "endpointChanges": .integer(end.engine.endpointChanges),
            "bytesSent": .integer(end.sentBytes), "bytesReceived": .integer(end.receivedBytes),
        ]
    }
}
