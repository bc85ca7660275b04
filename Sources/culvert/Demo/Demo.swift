// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import DemoSupport
import NetworkAddresses
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// Two whole WireGuard devices in this process, over real UDP on the loopback interface.
///
/// Nothing polls: each step waits for a packet, with a deadline.
struct Demo: DemoScene {
    static let (command, script, seconds) = ("demo", "tunnel", 3)
    static let members: JSON = [
        "mode": "memory", "mtu": .integer(DemoEnd.mtu), "elapsedSeconds": .integer(0), "handshake": .null,
        "ping": ["ipv4": .null, "ipv6": .null], "transfer": ["upload": .null, "download": .null], "roaming": .null,
        "presharedKey": .null, "client": .null, "server": .null, "drops": .array([]), "peakResidentBytes": .integer(0),
    ]
    static let scriptMembers: JSON = [
        "mode": "namespaces", "elapsedSeconds": .integer(0), "firstPing": .null,
        "ping": ["ipv4": .null, "ipv6": .null], "iperf3": ["upload": .null, "download": .null], "roaming": .null,
        "client": ["bytesSent": .integer(0), "bytesReceived": .integer(0)],
    ]

    /// The echo requests of each series.
    var pings = 100
    /// The time of each of the two bulk transfers.
    var transfer: Duration

    init(transfer: Duration) { self.transfer = transfer }

    func show(_ report: DemoReport) async throws {
        report.view.open("Two WireGuard devices in one process, over UDP on 127.0.0.1 (MTU \(DemoEnd.mtu), no root)")
        report.view.begin("devices")
        let client = try DemoEnd("client", number: 2)
        defer { client.device.close() }
        let server = try DemoEnd("server", number: 1)
        defer { server.device.close() }
        defer { Self.count(client, server, report) }
        try server.device.setPeers([client.peer()], key: server.key)
        try client.device.setPeers([server.peer(isPlaced: true)], key: client.key)
        report.view.finish(
            "client \(client.key.publicKey) on port \(client.port), server \(server.key.publicKey) on port \(server.port)"
        )
        try await report.step("handshake") {
            let time = try client.host.firstPacket(to: server.host).delivery
            Self.recordHandshake(time, report)
            return "\(Figure.milliseconds(time)) from the first packet to its delivery: initiation, response, data"
        }
        try client.host.showPings(pings, to: server.host, report)
        let bytes = try client.host.showTransfers(with: server.host, mtu: DemoEnd.mtu, for: transfer, report)
        report.summarize("every byte compared", Figure.bytes(bytes))
        try await report.step("roaming") { try roam(client, server, report) }
        try await report.step("pre-shared key") { try changePresharedKey(client, server, report) }
        let unexplained = Self.count(client, server, report)
        guard unexplained.isEmpty else {
            throw CommandFailure("packets were dropped for no good reason: \(unexplained.joined(separator: ", "))")
        }
    }

    // MARK: - Steps

    private func roam(_ client: DemoEnd, _ server: DemoEnd, _ report: DemoReport) throws -> String {
        func initiations() -> UInt64 {
            client.device.engineStatistics.initiationsSent + server.device.engineStatistics.initiationsSent
        }
        func seenPort() -> UInt16 { server.device.peer(client.key.publicKey)?.endpoint?.port ?? 0 }
        // A session of 120 seconds is renewed when it is used: before the move, not during it.
        _ = try client.host.pings(1, to: server.host)
        let (oldPort, before) = (seenPort(), initiations())
        try client.device.rebind()
        guard client.port != oldPort else { throw CommandFailure("the client was given port \(oldPort) again") }
        let pings = try client.host.pings(pings, to: server.host)
        let (handshakes, seen) = (initiations() - before, seenPort())
        report["roaming"] = Self.roaming(oldPort, client.port, seen: seen, handshakes: handshakes, pings)
        guard seen == client.port else {
            throw CommandFailure("the server sends to port \(seen), but the client moved to \(client.port)")
        }
        guard handshakes == 0 else { throw CommandFailure("the session did not outlive the move") }
        return "client moved from port \(oldPort) to \(client.port), the server followed, no new handshake; "
            + "\(pings.answered) of \(pings.sent) pings answered"
    }

    private func changePresharedKey(_ client: DemoEnd, _ server: DemoEnd, _ report: DemoReport) throws -> String {
        var generator = SystemRandomNumberGenerator()
        let key = PresharedKey(using: &generator)
        // The server alone has it: a new handshake must fail.
        try server.device.setPeers([client.peer(key)])
        try client.device.setPeers([server.peer(isPlaced: true)], replacing: true)
        report.view.progress("without it on one side")
        guard try client.host.ping(server.host, within: .milliseconds(300)) == nil else {
            throw CommandFailure("a ping was answered although the pre-shared keys differ")
        }
        try client.device.setPeers([server.peer(key, isPlaced: true)], replacing: true)
        let time = try client.host.firstPacket(to: server.host).delivery
        Self.recordPresharedKey(time, report)
        return "no answer while only the server had it; with it on both sides \(Figure.milliseconds(time))"
    }

    // MARK: - Report

    static func recordHandshake(_ time: Duration, _ report: DemoReport) {
        report["handshake"] = ["milliseconds": .decimal(time.milliseconds, places: 4)]
        report.summarize("first packet, handshake", Figure.milliseconds(time))
    }

    static func recordPresharedKey(_ time: Duration, _ report: DemoReport) {
        report["presharedKey"] = [
            "refusedWithoutIt": true, "handshakeMilliseconds": .decimal(time.milliseconds, places: 4),
        ]
        report.summarize("handshake, new preshared", Figure.milliseconds(time))
    }

    static func roaming(
        _ oldPort: UInt16, _ newPort: UInt16, seen: UInt16, handshakes: UInt64, _ pings: Pings
    ) -> JSON {
        [
            "oldPort": .integer(oldPort), "newPort": .integer(newPort), "seenPort": .integer(seen),
            "newHandshakes": .integer(handshakes), "ping": pings.json,
        ]
    }

    /// Adds what both ends counted to the figures and the closing lines.
    /// - Returns: The drops that nothing explains.
    @discardableResult
    static func count(_ client: DemoEnd, _ server: DemoEnd, _ report: DemoReport) -> [String] {
        let (mine, others) = (client.counters(of: server), server.counters(of: client))
        var table = TextTable(["", "client", "server"])
        for (one, other) in zip(mine, others) {
            guard let row = one.row else { continue }
            table.add([row, Figure.grouped(one.count), Figure.grouped(other.count)])
        }
        for (end, counters) in [(client, mine), (server, others)] {
            let members = counters.compactMap { one in one.member.map { ($0, JSON.integer(one.count)) } }
            report[end.host.name] = .object(
                of: [("publicKey", .string(end.key.publicKey.base64)), ("port", .integer(end.port))] + members)
        }
        let drops = (client.device.statistics.drops.byCause, server.device.statistics.drops.byCause)
        let unexplained = record(drops, &table, report)
        let memory = ProcessMemory.peakResidentBytes
        report["peakResidentBytes"] = .integer(memory)
        report.summarize("peak resident memory", Figure.bytes(memory))
        report.table = [""] + table.lines.map { "  " + $0 }
        return unexplained
    }

    /// Adds the dropped packets of the client and the server.
    /// - Returns: The drops that nothing explains.
    static func record(
        _ drops: ([(cause: String, count: UInt64)], [(cause: String, count: UInt64)]), _ table: inout TextTable,
        _ report: DemoReport
    ) -> [String] {
        // The attempt without the pre-shared key, which the report has by then, causes these.
        let onPurpose = report["presharedKey"] == .null ? nil : "on purpose: tried without the pre-shared key"
        let refused = ["rejected handshakes", "unknown session", "initiation floods"]
        var (list, some, unexplained) = ([JSON](), 0, [String]())
        for (one, other) in zip(drops.0, drops.1) {
            let sum = one.count + other.count
            var explanation: String?
            if sum > 0, refused.contains(one.cause) || one.cause.hasPrefix("staged") { explanation = onPurpose }
            // The transfer has counted these as lost.
            if sum > 0, one.cause == "socket queue full" { explanation = "sent faster than received" }
            list.append([
                "cause": .string(one.cause), "client": .integer(one.count), "server": .integer(other.count),
                "explanation": explanation.map { .string($0) } ?? .null,
            ])
            guard sum > 0 else { continue }
            some += 1
            if explanation == nil { unexplained.append("\(one.cause) (\(sum))") }
            let note = explanation.map { " (\($0))" } ?? ""
            table.add(["dropped, \(one.cause)\(note)", Figure.grouped(one.count), Figure.grouped(other.count)])
        }
        if some == 0 { table.add(["dropped, all \(list.count) causes", "0", "0"]) }
        report["drops"] = .array(list)
        return unexplained
    }
}

/// One end of the demonstration: a WireGuard device with an interface in memory, and the host behind it.
struct DemoEnd {
    static let mtu = 1420

    let host: DemoHost
    let device: WireGuardDevice
    let key: PrivateKey
    private let addresses: [IPAddress]

    /// An end with a new key, which runs.
    /// - Parameter number: The last part of both addresses.
    init(_ name: String, number: UInt8) throws {
        var generator = SystemRandomNumberGenerator()
        key = PrivateKey(using: &generator)
        addresses = [.v4(10, 77, 0, number), .v6(0xfd77_0000_0000_0000, UInt64(number))]
        host = try DemoHost(name: name, addresses: addresses, mtu: Self.mtu)
        device = try host.startDevice()
    }

    var port: UInt16 { device.listenPort ?? 0 }

    /// This end as a peer of the other one.
    /// - Parameter isPlaced: Whether the other end knows its port.
    func peer(_ presharedKey: PresharedKey? = nil, isPlaced: Bool = false) throws -> PeerConfiguration {
        PeerConfiguration(
            publicKey: key.publicKey, presharedKey: presharedKey, allowedIPs: addresses.map { IPPrefix(host: $0) },
            endpoint: isPlaced ? try EndpointAddress(host: "127.0.0.1", port: port) : nil)
    }

    /// The counters: the member of the document and the row of the closing table, if there is one.
    func counters(of peer: DemoEnd) -> [(member: String?, row: String?, count: UInt64)] {
        let (engine, lane, state) = (device.engineStatistics, device.laneStatistics, device.peer(peer.key.publicKey))
        let (sent, batches) = (UInt64(clamping: lane.toNetwork.packets), UInt64(clamping: lane.toNetwork.batches))
        return [
            ("handshakesCompleted", "handshakes completed", engine.handshakesCompleted),
            ("packetsSealed", "packets sealed", engine.packetsSent),
            ("packetsOpened", "packets opened", engine.packetsReceived), ("datagramsSent", "datagrams sent", sent),
            ("datagramsReceived", nil, UInt64(clamping: lane.fromNetwork.packets)), ("sendBatches", nil, batches),
            (nil, "datagrams per batch sent", sent / max(batches, 1)),
            ("endpointChanges", "endpoint changes seen", engine.endpointChanges),
            ("bytesSent", nil, state?.sentBytes ?? 0), ("bytesReceived", nil, state?.receivedBytes ?? 0),
        ]
    }
}
