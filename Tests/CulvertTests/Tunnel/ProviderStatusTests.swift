// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import PacketTunnel
import Testing
import TunnelIO
import TunnelSystem
import WireGuardDevice

@testable import CredentialTunnel
@testable import WireGuardTunnel
@testable import culvert

@Suite("The provider's status in text and JSON")
struct ProviderStatusTests {
    private static let reports = [
        Samples.report("wg0", .reasserting, wireGuard: Samples.status(.healing)),
        Samples.report(.reasserting, login: Samples.login(.reconnecting)),
    ]

    private func text(_ tunnel: TunnelSnapshot) -> [String] {
        StatusText(paint: Paint(CapturedConsole().console())).detail(tunnel)
    }

    @Test("Text and JSON have the same facts of a WireGuard tunnel and of a login tunnel", arguments: reports)
    func facts(_ report: ServiceReport) throws {
        let tunnel = TunnelSnapshot(name: report.name, report: report, time: 1090)
        let status = try #require(report.provider)
        let (lines, json) = (text(tunnel), tunnel.json)
        func line(_ key: String) -> String? { lines.first { $0.hasPrefix("  \(key):") } }

        #expect(lines[0] == "\(report.name): reasserting (\(status.activity))")
        #expect(json["activity"] == .string(status.activity) && tunnel.watchJSON["activity"] == json["activity"])
        #expect(status.isTrying && line("meanwhile") != nil)

        let endpoint = try #require(status.endpoint)
        #expect(lines.contains { $0.hasSuffix("  \(endpoint)") })
        #expect(json["endpoint"] == .string(endpoint) && tunnel.watchJSON["endpoint"] == json["endpoint"])

        let age = try #require(status.handshakeAge)
        #expect(lines.contains { $0.hasSuffix("  \(StatusText.age(age))") })
        #expect(json["lastHandshakeSeconds"] == .decimal(age, places: 3))

        #expect(try #require(line("received")).hasSuffix("  \(Figure.bytes(status.receivedBytes))"))
        #expect(json["receivedBytes"] == .integer(status.receivedBytes))
        #expect(try #require(line("sent")).hasSuffix("  \(Figure.bytes(status.sentBytes))"))
        #expect(json["sentBytes"] == .integer(status.sentBytes))

        #expect(status.login.map { line("login")?.hasSuffix("  \($0)") == true } ?? (line("login") == nil))
        #expect(json["login"] == (status.login.map { JSON.string($0) } ?? .null))
        #expect(
            status.listenPort.map { line("listening on")?.hasSuffix("UDP port \($0)") == true }
                ?? (line("listening on") == nil))
        #expect(json["listenPort"] == (status.listenPort.map { JSON.integer($0) } ?? .null))

        let peers = try #require(json["peers"]?.list)
        #expect(peers.map { $0["publicKey"]?.string } == status.peers.map(\.publicKey))
        #expect(lines.filter { $0.hasPrefix("  peer ") } == status.peers.map { "  peer \($0.publicKey)" })
    }

    @Test("A login tunnel that connects for the first time is not shown as reconnecting")
    func connecting() throws {
        let report = Samples.report(.connecting, login: Samples.login(.connecting))
        let lines = text(TunnelSnapshot(name: report.name, report: report))
        #expect(lines[0] == "\(report.name): connecting")
        #expect(!lines.contains { $0.hasPrefix("  meanwhile:") })
    }

    @Test("Each drop cause of WireGuard and of login tunnels is in text and in JSON")
    func drops() throws {
        let login = CredentialClientDevice.drops(ClientStatistics(), LaneStatistics(), DatagramReceiveDrops())
        for (isLogin, table) in [(false, DeviceStatistics().drops), (true, login)] {
            var drops: [String: UInt64] = [:]
            for (number, counter) in table.counters.enumerated() { drops[counter.cause] = 100 + UInt64(number) }
            var status = Samples.status()
            status.drops = drops
            let report =
                isLogin
                ? Samples.report(login: Samples.login(drops: drops)) : Samples.report(wireGuard: status)
            let tunnel = TunnelSnapshot(name: report.name, report: report)
            let line = try #require(text(tunnel).first { $0.hasPrefix("  dropped:") })
            let shown = Set(line.dropFirst("  dropped:".count).split(separator: ",").map { $0.drop { $0 == " " } })
            #expect(shown.count == table.counters.count)
            for (cause, count) in drops {
                #expect(shown.contains("\(cause) \(count)"), "\(cause) is not in the text")
                #expect(tunnel.json["drops"]?[cause] == .integer(count), "\(cause) is not in the JSON")
            }
        }
    }

    @Test("The endpoint is that of the peer with the latest handshake")
    func newest() {
        let peers = [
            PeerStatus(publicKey: "a", endpoint: "192.0.2.1:1", lastHandshakeAge: 9, receivedBytes: 1, sentBytes: 10),
            PeerStatus(publicKey: "b", endpoint: "192.0.2.2:2", lastHandshakeAge: 3, receivedBytes: 2, sentBytes: 20),
            PeerStatus(publicKey: "c", lastHandshakeAge: 1, receivedBytes: 4, sentBytes: 40),
        ]
        let status = ProviderStatus(activity: "connected", isTrying: false, peers: peers, drops: [:])
        #expect(status.endpoint == "192.0.2.2:2" && status.handshakeAge == 1)
        #expect(status.receivedBytes == 7 && status.sentBytes == 70)
    }
}
