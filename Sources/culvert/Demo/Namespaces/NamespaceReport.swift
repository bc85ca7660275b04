// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

/// All figures of a demonstration with real interfaces.
struct NamespaceReport {
    var firstPing: ToolOutput.Pings?
    var pingsV4: ToolOutput.Pings?
    var pingsV6: ToolOutput.Pings?
    var upload: ToolOutput.Transfer?
    var download: ToolOutput.Transfer?
    var hasIperf = true
    var roamedTo: UInt16?
    var clientSentBytes: UInt64 = 0
    var clientReceivedBytes: UInt64 = 0
    var elapsed: Duration = .zero
    var failure: String?

    static func text(_ pings: ToolOutput.Pings) -> String {
        let times = [pings.minimum, pings.mean, pings.maximum].map { $0.map { Figure.decimal($0, places: 3) } ?? "-" }
        return "\(pings.answered) of \(pings.sent) answered, round trip \(times.joined(separator: " / ")) ms "
            + "(min / mean / max)"
    }

    static func text(_ transfer: ToolOutput.Transfer) -> String {
        let again = transfer.retransmissions.map { ", \(Figure.grouped($0)) segments sent again" } ?? ""
        return "\(Figure.rate(transfer.megabitsPerSecond * 1e6)) of TCP payload\(again)"
    }

    /// The closing summary.
    var summary: [String] {
        var lines = ["", "Summary"]
        func figure(_ name: String, _ value: String?) {
            if let value { lines.append("  \(name.padded(to: 26)) \(value)") }
        }
        figure("first ping, handshake", firstPing?.mean.map { Figure.decimal($0, places: 3) + " ms" })
        figure(
            "pings lost", pingsV4.flatMap { v4 in pingsV6.map { v6 in "\(v4.lost + v6.lost) of \(v4.sent + v6.sent)" } }
        )
        figure("client to server", upload.map { Figure.rate($0.megabitsPerSecond * 1e6) })
        figure("server to client", download.map { Figure.rate($0.megabitsPerSecond * 1e6) })
        figure("WireGuard sent, received", "\(Figure.bytes(clientSentBytes)), \(Figure.bytes(clientReceivedBytes))")
        figure("time", Figure.seconds(elapsed))
        return lines
    }

    /// The figures as one document.
    var json: JSON {
        [
            "ok": .bool(failure == nil), "error": failure.map { .string($0) } ?? .null,
            "version": .string(programVersion), "mode": "namespaces",
            "elapsedSeconds": .decimal(elapsed.milliseconds / 1000, places: 3),
            "firstPing": document(firstPing),
            "ping": ["ipv4": document(pingsV4), "ipv6": document(pingsV6)],
            "iperf3": hasIperf ? ["upload": document(upload), "download": document(download)] : .null,
            "roaming": roamedTo.map { ["newPort": .integer($0)] } ?? .null,
            "client": ["bytesSent": .integer(clientSentBytes), "bytesReceived": .integer(clientReceivedBytes)],
        ]
    }

    private func document(_ pings: ToolOutput.Pings?) -> JSON {
        guard let pings else { return .null }
        func time(_ value: Double?) -> JSON { value.map { .decimal($0, places: 3) } ?? .null }
        return [
            "sent": .integer(pings.sent), "answered": .integer(pings.answered), "lost": .integer(pings.lost),
            "minimumMilliseconds": time(pings.minimum), "meanMilliseconds": time(pings.mean),
            "maximumMilliseconds": time(pings.maximum),
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
