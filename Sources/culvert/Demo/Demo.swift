// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import DemoSupport
import NetworkAddresses
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// `culvert demo`: shows the whole stack at work.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Run two WireGuard devices against each other and show what happens.",
        discussion: """
            Without --tun it needs no privileges: both devices run in this process, over UDP on 127.0.0.1. Shown are \
            handshake, pings, a bulk transfer each way in which every byte is compared, roaming, and a change of the \
            pre-shared key. With --tun (Linux, root) 'culvert up' runs a tunnel in each of two network namespaces, with \
            real interfaces. The system's own ping and, if they are installed, iperf3 and wg use them: 'wg set' moves the \
            client to another port. Everything that is made is removed, after Ctrl-C too. With --login it shows a tunnel \
            with user name and password instead: a login server in memory and its client, over UDP on 127.0.0.1.

            Examples:
              culvert demo
              culvert demo --seconds 10
              culvert demo --plain > demo.txt
              culvert demo --json | jq .transfer.upload.megabitsPerSecond
              culvert demo --login
              sudo culvert demo --tun

            Exit status: 0, 1, 2, 130; see culvert(1).
            """)

    @OptionGroup var options: DemoOptions<Demo>

    @Flag(help: "Print one JSON document with all figures, and nothing else.")
    var json = false

    @Flag(help: "Show a tunnel with a login. It has no transfer, so --seconds has no effect.")
    var login = false

    func validate() throws {
        if login, options.tun { throw ValidationError("--login needs no interfaces: leave out --tun") }
    }

    func run() throws {
        try finish(login ? options.run(LoginDemo.self, isJSON: json) : options.run(isJSON: json))
    }
}

/// Two whole WireGuard devices in this process, over real UDP on the loopback interface.
///
/// Nothing polls: each step waits for a packet, with a deadline.
struct Demo: DemoScene {
    static let (command, script, seconds) = ("demo", "tunnel", 3)
    static var members: JSON {
        [
            "mode": "memory", "mtu": .integer(DemoEnd.mtu), "elapsedSeconds": .integer(0), "handshake": .null,
            "ping": ["ipv4": .null, "ipv6": .null], "transfer": ["upload": .null, "download": .null],
            "roaming": .null, "presharedKey": .null, "client": .null, "server": .null, "drops": .array([]),
            "peakResidentBytes": .integer(ProcessMemory.peakResidentBytes),
        ]
    }
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
        try server.setPeer(client)
        try client.setPeer(server, connects: true)
        report.view.finish(
            "client \(client.key.publicKey) on port \(client.port), server \(server.key.publicKey) on port \(server.port)"
        )
        try await report.step("handshake") {
            let time = try client.host.firstPing(server.host)
            report["handshake"] = ["milliseconds": .decimal(time.milliseconds, places: 4)]
            let words = report.summarize("first packet, handshake", time)
            return "\(words) from the first packet to its answer: initiation, response, data"
        }
        try client.host.showPings(pings, to: server.host, report)
        let bytes = try client.host.showTransfers(with: server.host, for: transfer, report)
        report.summarize("every byte compared", Figure.bytes(bytes))
        try await report.step("roaming") { try roam(client, server, report) }
        try await report.step("pre-shared key") { try changePresharedKey(client, server, report) }
        let unexplained = Self.count(client, server, report)
        guard unexplained.isEmpty else {
            throw CommandFailure("packets were dropped for unexplained reasons: \(unexplained.joined(separator: ", "))")
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
        let (newPort, handshakes, seen) = (client.port, initiations() - before, seenPort())
        report["roaming"] = [
            "oldPort": .integer(oldPort), "newPort": .integer(newPort), "seenPort": .integer(seen),
            "newHandshakes": .integer(handshakes), "ping": pings.json,
        ]
        guard seen == newPort else {
            throw CommandFailure("the server sends to port \(seen), but the client moved to \(newPort)")
        }
        guard handshakes == 0 else { throw CommandFailure("the session did not survive the move") }
        return "client moved from port \(oldPort) to \(newPort), the server followed, no new handshake; "
            + "\(pings.answered) of \(pings.sent) pings answered"
    }

    private func changePresharedKey(_ client: DemoEnd, _ server: DemoEnd, _ report: DemoReport) throws -> String {
        var generator = SystemRandomNumberGenerator()
        let key = PresharedKey(using: &generator)
        // The server alone has it: a new handshake must fail.
        try server.setPeer(client, key)
        try client.setPeer(server, connects: true)
        report.view.progress("without it on one side")
        guard try client.host.ping(server.host, within: .milliseconds(300)) == nil else {
            throw CommandFailure("a ping was answered although the pre-shared keys differ")
        }
        try client.setPeer(server, key, connects: true)
        let time = try client.host.firstPing(server.host)
        report["presharedKey"] = [
            "refusedWithoutIt": true, "handshakeMilliseconds": .decimal(time.milliseconds, places: 4),
        ]
        let words = report.summarize("handshake, new preshared", time)
        return "no answer while only the server had it; with it on both sides \(words)"
    }

    // MARK: - Report

    /// Adds what both ends counted to the figures and the closing lines.
    /// - Returns: The drops that nothing explains.
    @discardableResult
    static func count(_ client: DemoEnd, _ server: DemoEnd, _ report: DemoReport) -> [String] {
        let (mine, others) = (client.counters(of: server), server.counters(of: client))
        for (end, counters) in [(client, mine), (server, others)] {
            let members = counters.compactMap { one in one.member.map { ($0, JSON.integer(one.count)) } }
            report[end.host.name] = .object(
                of: [("publicKey", .string(end.key.publicKey.base64)), ("port", .integer(end.port))] + members)
        }
        for (one, other) in zip(mine, others) {
            if let line = one.line { summarize(line, one.count, other.count, report) }
        }
        let memory = ProcessMemory.peakResidentBytes
        report["peakResidentBytes"] = .integer(memory)
        report.summarize("peak resident memory", Figure.bytes(memory))
        return record((client.drops, server.drops), report)
    }

    /// Adds the dropped packets of the client and the server.
    /// - Returns: The drops that nothing explains.
    static func record(_ drops: (DemoEnd.Drops, DemoEnd.Drops), _ report: DemoReport) -> [String] {
        // The attempt without the pre-shared key, which the report has by then, causes these.
        let onPurpose = report["presharedKey"] == .null ? nil : "on purpose: tried without the pre-shared key"
        var (list, unexplained) = ([JSON](), [String]())
        for (one, other) in zip(drops.0, drops.1) {
            let sum = one.count + other.count
            var explanation: String?
            switch one.cause {
            case _ where sum == 0: break
            // The transfer has counted these as lost.
            case "socket queue full": explanation = "sent faster than received"
            case "rejected handshakes", "unknown session", "initiation floods": explanation = onPurpose
            default: if one.cause.hasPrefix("staged") { explanation = onPurpose }
            }
            list.append([
                "cause": .string(one.cause), "client": .integer(one.count), "server": .integer(other.count),
                "explanation": explanation.map { .string($0) } ?? .null,
            ])
            guard sum > 0 else { continue }
            if explanation == nil { unexplained.append("\(one.cause) (\(sum))") }
            let note = explanation.map { " (\($0))" } ?? ""
            summarize("dropped, \(one.cause)", one.count, other.count, report, note: note)
        }
        report["drops"] = .array(list)
        return unexplained
    }

    private static func summarize(
        _ line: String, _ client: UInt64, _ server: UInt64, _ report: DemoReport, note: String = ""
    ) {
        report.summarize(line, "client \(Figure.grouped(client)), server \(Figure.grouped(server))\(note)")
    }
}

/// One end of the demonstration: a WireGuard device with an interface in memory, and the host behind it.
struct DemoEnd {
    typealias Drops = [(cause: String, count: UInt64)]
    static let mtu = 1420

    let host: DemoHost
    let device: WireGuardDevice
    let key: PrivateKey

    /// An end with a new key, which runs.
    /// - Parameter number: The last part of both addresses.
    init(_ name: String, number: UInt8) throws {
        var generator = SystemRandomNumberGenerator()
        key = PrivateKey(using: &generator)
        let addresses: [IPAddress] = [.v4(10, 77, 0, number), .v6(0xfd77_0000_0000_0000, UInt64(number))]
        host = try DemoHost(name: name, addresses: addresses, mtu: Self.mtu)
        device = try host.startDevice()
    }

    var port: UInt16 { device.listenPort ?? 0 }

    /// The dropped packets of the device, and of its interface.
    var drops: Drops {
        device.statistics.drops.byCause + [("memory interface", UInt64(clamping: host.tun.injectionsDropped))]
    }

    /// Gives the device its peer.
    /// - Parameter connects: Whether this end begins the session: it knows the peer's port, and ends the former session.
    func setPeer(_ other: DemoEnd, _ presharedKey: PresharedKey? = nil, connects: Bool = false) throws {
        let peer = PeerConfiguration(
            publicKey: other.key.publicKey, presharedKey: presharedKey,
            allowedIPs: other.host.addresses.map { IPPrefix(host: $0) },
            endpoint: connects ? try EndpointAddress(host: "127.0.0.1", port: other.port) : nil)
        let configuration = TunnelConfiguration(interface: InterfaceConfiguration(privateKey: key), peers: [peer])
        var update = try configuration.deviceUpdate(mode: .add)
        if connects {
            var removal = UAPIPeerUpdate(publicKey: other.key.publicKey)
            removal.remove = true
            update.peers.insert(removal, at: 0)
        }
        try device.apply(update)
    }

    /// The counters: the member of the document and the name of the closing line, if there is one.
    func counters(of peer: DemoEnd) -> [(member: String?, line: String?, count: UInt64)] {
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
