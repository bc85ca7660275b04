// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

/// All figures of a demonstration with real interfaces.
struct NamespaceReport {
    var firstPing: Pings?
    var pingsV4: Pings?
    var pingsV6: Pings?
    var upload: ToolOutput.Transfer?
    var download: ToolOutput.Transfer?
    var hasIperf = true
    var roamedTo: UInt16?
    var clientSentBytes: UInt64 = 0
    var clientReceivedBytes: UInt64 = 0
    var elapsed: Duration = .zero
    var failure: String?

    static func text(_ transfer: ToolOutput.Transfer) -> String {
        let again = transfer.retransmissions.map { ", \(Figure.grouped($0)) segments sent again" } ?? ""
        return "\(Figure.rate(transfer.megabitsPerSecond * 1e6)) of TCP payload\(again)"
    }

    /// The closing summary.
    var summary: [String] {
        var summary = DemoSummary()
        summary.add("first ping, handshake", firstPing?.mean.map { Figure.decimal($0, places: 3) + " ms" })
        summary.addLost(pingsV4, pingsV6)
        summary.add("client to server", upload.map { Figure.rate($0.megabitsPerSecond * 1e6) })
        summary.add("server to client", download.map { Figure.rate($0.megabitsPerSecond * 1e6) })
        summary.add(
            "WireGuard sent, received", "\(Figure.bytes(clientSentBytes)), \(Figure.bytes(clientReceivedBytes))")
        summary.add("time", Figure.seconds(elapsed))
        return summary.lines
    }

    /// The figures as one document.
    var json: JSON {
        [
            "ok": .bool(failure == nil), "error": failure.map { .string($0) } ?? .null,
            "version": .string(programVersion), "mode": "namespaces",
            "elapsedSeconds": .decimal(elapsed.milliseconds / 1000, places: 3),
            "firstPing": firstPing?.json ?? .null,
            "ping": ["ipv4": pingsV4?.json ?? .null, "ipv6": pingsV6?.json ?? .null],
            "iperf3": hasIperf ? ["upload": document(upload), "download": document(download)] : .null,
            "roaming": roamedTo.map { ["newPort": .integer($0)] } ?? .null,
            "client": ["bytesSent": .integer(clientSentBytes), "bytesReceived": .integer(clientReceivedBytes)],
        ]
    }

    private func document(_ transfer: ToolOutput.Transfer?) -> JSON {
        guard let transfer else { return .null }
        return [
            "megabitsPerSecond": .decimal(transfer.megabitsPerSecond, places: 1),
            "retransmissions": transfer.retransmissions.map { .integer($0) } ?? .null,
        ]
    }
}
