// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Foundation
import PacketTunnel
import Synchronization
import Testing
import TunnelSystem

@testable import WireGuardTunnel
@testable import culvert

@Suite("The output of culvert status")
struct StatusTests {
    private func snapshot(_ report: ServiceReport? = Samples.report(), problem: String? = nil) -> TunnelSnapshot {
        TunnelSnapshot(name: "wg0", report: report, problem: problem, time: 1090)
    }

    private func text(isLive: Bool = false) -> StatusText {
        StatusText(paint: Paint(CapturedConsole().console(isLive: isLive)))
    }

    @Test(
        "Ages",
        arguments: [
            (nil, "never"), (0, "0 s ago"), (59.9, "59 s ago"), (61, "1 min 1 s ago"), (3_725, "1 h 2 min ago"),
            (90_000, "1 d 1 h ago"), (-3, "0 s ago"), (.infinity, "never"),
        ] as [(Double?, String)])
    func ages(_ seconds: Double?, _ text: String) {
        #expect(StatusText.age(seconds) == text)
    }

    @Test(
        "Rates",
        arguments: [
            (0, "0 bit/s"), (999, "999 bit/s"), (1500, "1.5 kbit/s"), (2_500_000, "2.5 Mbit/s"),
            (12_340_000_000, "12.34 Gbit/s"),
        ])
    func rates(_ value: Double, _ text: String) {
        #expect(StatusText.rate(value) == text)
    }

    @Test("Rates are computed from two snapshots of one process")
    func rateOfTwo() throws {
        let first = snapshot(Samples.report(wireGuard: Samples.status(received: 1000, sent: 500)))
        let second = snapshot(Samples.report(wireGuard: Samples.status(received: 3000, sent: 500)))
        #expect(second.rates(since: first, over: .seconds(2)) == TunnelSnapshot.Rates(received: 8000, sent: 0))
        // Counters that went back are another run's.
        #expect(first.rates(since: second, over: .seconds(2)) == nil)
        #expect(second.rates(since: first, over: .zero) == nil)
        #expect(second.rates(since: snapshot(nil), over: .seconds(1)) == nil)
    }

    @Test("A table shows all tunnels, the dead ones too")
    func table() {
        let lines = text().table([snapshot(), TunnelSnapshot(name: "wg1")])
        #expect(lines.count == 4)
        #expect(lines[0].split(separator: " ") == ["NAME", "STATE", "ENDPOINT", "HANDSHAKE", "RECEIVED", "SENT"])
        #expect(lines[2].contains("wg0") && lines[2].contains("192.0.2.1:51820") && lines[2].contains("12 s ago"))
        #expect(lines[2].hasSuffix("2.0 MB  4.5 kB"))
        #expect(lines[3].split(separator: " ") == ["wg1", "dead", "-", "never", "-", "-"])
    }

    @Test("The full status of a tunnel is shown")
    func detail() {
        var tunnel = snapshot()
        tunnel.rates = TunnelSnapshot.Rates(received: 8000, sent: 0)
        let lines = text().detail(tunnel)
        #expect(lines.first == "wg0: connected")
        for line in [
            "  source:        /etc/wireguard/wg0.conf", "  process:       4711, for 1 min 30 s",
            "  received:      2.0 MB, 8.0 kbit/s", "  name servers:  10.7.0.1, corp.example",
            "  dropped:       while down 3", "  endpoint:      192.0.2.1:51820", "  keepalive:     every 25 s",
        ] {
            #expect(lines.contains(line), "\(line)")
        }
        #expect(
            text().detail(snapshot(Samples.report(wireGuard: Samples.status(.probing)))).first
                == "wg0: connected (probing)")
        for state in [WireGuardState.connecting, .healing] {
            let lines = text().detail(snapshot(Samples.report("wg0", .reasserting, wireGuard: Samples.status(state))))
            #expect(lines[0] == "wg0: reasserting (\(state.rawValue))")
            #expect(lines[1].hasSuffix("is dropped; the tunnel continues to try to reach its server"))
        }
        var failed = Samples.report("wg0", .blocked, wireGuard: nil)
        failed.status.error = TunnelError(.connectivityLost, "gone", fix: "wait")
        let blocked = text().detail(snapshot(failed))
        #expect(blocked.prefix(3) == ["wg0: blocked", "  error:         gone", "  fix:           wait"])
        #expect(text().detail(snapshot(nil)).joined().contains("culvert down wg0"))
        var held = snapshot(nil)
        held.heldPolicy = .everything
        #expect(held.state == "held")
        #expect(text().detail(held).contains("  leak policy:   everything, without the tunnel"))
        #expect(text().detail(held).joined().contains("culvert guard wg0 --release"))
        held.isGuardGone = true
        #expect(held.state == "dead")
        #expect(text().detail(held).contains { $0.contains("fix:") && $0.contains("culvert guard") })
        var repaired = Samples.report(wireGuard: Samples.status())
        (repaired.repairs, repaired.lastRepair) = (3, "firewall table culvert_wg0")
        #expect(
            text().detail(snapshot(repaired)).contains("  made again:    3 times, last: firewall table culvert_wg0"))
        repaired.problems = [ServiceReport.Problem(what: "the firewall: nft is not installed", since: 1000)]
        #expect(
            text().detail(snapshot(repaired)).contains(
                "  not in effect: the firewall: nft is not installed, for 1 min 30 s"))
        #expect(
            snapshot(repaired).json["problems"]
                == .array([["what": "the firewall: nft is not installed", "since": .decimal(1000, places: 3)]]))
        #expect(text().detail(snapshot(nil, problem: "busy")).contains("  problem:       busy"))
        #expect(text().detail(snapshot()).contains("  encryption:    ChaCha20-Poly1305 by boringssl"))
        repaired.aeadRejection = "another version is installed"
        #expect(
            text().detail(snapshot(repaired)).contains(
                "  encryption:    ChaCha20-Poly1305 by boringssl (another version is installed)"))
        #expect(snapshot(repaired).json["aeadRejection"] == "another version is installed")
    }

    @Test("Colours are used only on a terminal")
    func colours() {
        #expect(!text().detail(snapshot()).joined().contains("\u{1b}"))
        #expect(text(isLive: true).detail(snapshot())[0] == "\u{1b}[1mwg0\u{1b}[0m: \u{1b}[32mconnected\u{1b}[0m")
    }

    @Test("JSON has the members that are documented, in their order")
    func json() throws {
        let names = [
            "name", "state", "activity", "error", "processID", "source", "profile", "startedAt", "publicKey",
            "listenPort", "endpoint", "login", "addresses", "routes", "excludedRoutes", "dnsServers", "searchDomains",
            "leakPolicy",
            "allowsLocalNetwork", "allowedNetworks", "heldPolicy", "repairs", "lastRepair", "problems", "memoryBytes",
            "aead", "aeadRejection", "receivedBytes", "sentBytes",
            "receivedBitsPerSecond",
            "sentBitsPerSecond", "lastHandshakeSeconds", "drops", "peers", "device",
        ]
        let json = snapshot().json
        #expect(json.names == names)
        #expect(snapshot(nil).json.names == names)
        #expect(json["state"] == "connected")
        #expect(json["receivedBytes"] == .integer(2_000_000))
        #expect(json["receivedBitsPerSecond"] == .null)
        #expect(json["lastHandshakeSeconds"] == .decimal(12, places: 3))
        guard case .array(let peers)? = json["peers"] else {
            Issue.record("no peers")
            return
        }
        #expect(
            peers.map(\.names) == [
                [
                    "publicKey", "endpoint", "allowedIPs", "persistentKeepalive", "lastHandshakeSeconds",
                    "receivedBytes", "sentBytes",
                ]
            ])
        #expect(snapshot(nil).json["state"] == "dead")
        #expect(snapshot(nil, problem: "busy").json["error"]?["message"] == "busy")
        let line = snapshot().watchJSON.line
        #expect(!line.contains("\n"))
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        #expect(object?["endpoint"] as? String == "192.0.2.1:51820")
        #expect(object?["time"] as? Double == 1090)
    }

    @Test("The live view redraws its lines in place, and gives the cursor back")
    func live() {
        let captured = CapturedConsole()
        var view: LiveWatchView? = LiveWatchView(captured.console(isLive: true)) {
            TerminalSize(columns: 40, rows: 24)
        }
        #expect(captured.output == "\u{1b}[?25l")
        for step in 0..<3 {
            var tunnel = snapshot()
            if step > 0 { tunnel.rates = TunnelSnapshot.Rates(received: Double(step) * 1000, sent: 10) }
            view?.show(tunnel)
        }
        let frames = captured.output.components(separatedBy: "\u{1b}[J")
        #expect(frames.count == 4)
        #expect(
            !frames[0].contains("\u{1b}[8A") && frames[1].hasPrefix("\u{1b}[8A") && frames[2].hasPrefix("\u{1b}[8A"))
        #expect(frames[2].contains("▅█") && frames[2].contains("2.0 kbit/s") && frames[2].contains("192.0.2.1:51820"))
        // No line is longer than the terminal is wide.
        for line in frames[2].split(separator: "\n") {
            let plain = line.replacing(#/\u{1b}\[[0-9;?]*[A-Za-z]/#, with: "").filter { $0 != "\r" }
            #expect(plain.count <= 40, "\(plain)")
        }
        view?.end("gone")
        #expect(captured.output.hasSuffix("\u{1b}[?25hgone\n"))
        view = nil
        #expect(captured.output.hasSuffix("\u{1b}[?25hgone\n"))
    }

    /// The rows that a frame leaves, without colours.
    private func rows(_ frame: String) -> [String] {
        // First: with a line's end, a carriage return is one character.
        frame.replacing("\r", with: "").replacing(#/\u{1b}\[[0-9;?]*[A-Za-z]/#, with: "").split(separator: "\n").map(
            String.init)
    }

    @Test(
        "In a narrow or low terminal no line wraps and none scrolls", arguments: [1, 2, 3, 12, 19, 24, 80],
        [1, 2, 5, 24])
    func smallTerminal(_ columns: Int, _ rowCount: Int) throws {
        let captured = CapturedConsole()
        let view = LiveWatchView(captured.console(isLive: true)) { TerminalSize(columns: columns, rows: rowCount) }
        var tunnel = snapshot()
        tunnel.name = "a-long-name-of1"
        tunnel.report?.wireGuard?.state = .healing
        tunnel.rates = TunnelSnapshot.Rates(received: 1000, sent: 10)
        for _ in 0..<100 { view.show(tunnel) }
        let frame = try #require(captured.output.components(separatedBy: "\u{1b}[J").dropLast().last)
        let rows = rows(frame)
        #expect(!rows.isEmpty && rows.count <= max(rowCount - 1, 1))
        for row in rows { #expect(row.count <= columns, "\(row)") }
        #expect(rows.first == String("a-long-name-of1  connected (healing)".prefix(columns)))
        if columns == 80 {
            let words = rows.map { $0.split(separator: " ").first.map(String.init) ?? "" }
            if rowCount == 5 { #expect(words.dropFirst() == ["endpoint", "handshake", "received"]) }
            if rowCount == 24 { #expect(words.contains("sent") && words.contains("Ctrl-C")) }
        }
    }

    @Test("A terminal whose size changes is redrawn")
    func resized() {
        let captured = CapturedConsole()
        let columns = Mutex(80)
        let view = LiveWatchView(captured.console(isLive: true)) {
            TerminalSize(columns: columns.withLock { $0 }, rows: 24)
        }
        view.show(snapshot())
        view.show(snapshot())
        #expect(!captured.output.contains("\u{1b}[2J"))
        columns.withLock { $0 = 30 }
        view.show(snapshot())
        #expect(captured.output.components(separatedBy: "\u{1b}[2J\u{1b}[H").count == 2)
        view.show(snapshot())
        #expect(captured.output.components(separatedBy: "\u{1b}[2J\u{1b}[H").count == 2)
    }

    @Test("An update is one line on a pipe")
    func lines() {
        let captured = CapturedConsole()
        let view = LineWatchView(captured.console(), json: false)
        view.show(snapshot())
        #expect(
            captured.output
                == "wg0  connected  192.0.2.1:51820  handshake 12 s ago  received 2.0 MB (-)  sent 4.5 kB (-)\n")
        view.end("gone")
        #expect(captured.output.hasSuffix("gone\n"))
        let json = LineWatchView(captured.console(), json: true)
        json.end("gone")
        #expect(captured.error == "gone\n")
    }
}
