// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

@Suite("Memory budget: drop counters", .timeLimit(.minutes(1)))
struct MemoryBudgetDropTests {
    @Test("Each counter has its own cause")
    func causes() {
        var engine = EngineStatistics()
        let engineCauses: [WritableKeyPath<EngineStatistics, UInt64>] = [
            \.noRoute, \.noEndpoint, \.stagedOverPeerLimit, \.stagedOverBudget, \.stagedAbandoned, \.outboxDropped,
            \.whileDown, \.malformedDatagrams, \.invalidMac1, \.cookieRepliesSent, \.rateLimited,
            \.rejectedHandshakes, \.initiationFloods, \.unknownSession, \.authenticationFailures, \.replayed,
            \.malformedPackets, \.disallowedSource,
        ]
        // Powers of two, so that no sum of some is another.
        for (number, cause) in engineCauses.enumerated() { engine[keyPath: cause] = 1 << number }
        var lane = LaneStatistics()
        lane.droppedByDevice = 1 << 20
        lane.droppedByNetwork = 1 << 21
        lane.droppedWithoutSocket = 1 << 22
        lane.malformedFromDevice = 1 << 25
        let sockets = DatagramReceiveDrops(oversize: 1 << 23, overflowed: 1 << 24)
        let statistics = DeviceStatistics(engine: engine, lane: lane, sockets: sockets)
        let drops = statistics.drops
        #expect(drops.byCause.count == engineCauses.count + 6)
        #expect(Set(drops.byCause.map(\.count)).count == drops.byCause.count)
        #expect(Set(drops.byCause.map(\.cause)).count == drops.byCause.count)
        #expect(drops.total == (1 << 18) - 1 + 0x3f << 20)
        #expect(engine.stagedDropped == 1 << 2 | 1 << 3 | 1 << 4)
        #expect("\(drops)".hasPrefix("no peer 1, no endpoint 2, staged over peer limit 4, "))
        // The log has each cause, and status messages have those that occurred.
        for counter in drops.counters {
            #expect("\(statistics)".contains("\(counter.cause) \(counter.count)") && !counter.summary.isEmpty)
            #expect(drops[counter.cause] == counter.count && drops.counted[counter.cause] == counter.count)
        }
        #expect("\(DeviceStatistics().drops)" == "none" && DeviceStatistics().drops.counted.isEmpty)
        #expect(drops["no such cause"] == nil)
        // Other statistics are not causes.
        var others = EngineStatistics()
        others.initiationsSent = 1
        others.packetsSent = 2
        others.keepalivesReceived = 3
        #expect(DeviceStatistics(engine: others).drops.total == 0)
    }

    private func packet(to address: UInt32, byteCount: Int = 100) -> [UInt8] {
        PacketBuilder.udp(
            from: .v4(0x0a0a_0001), port: 1, to: .v4(address), port: 2,
            payload: [UInt8](repeating: 0, count: byteCount - 28))
    }

    /// A device with peers that never answer, and its interface.
    private func silent(_ options: WireGuardDevice.Options, peers: Int) throws -> (TestHost, [UInt32]) {
        let host = try TestHost(on: MemoryInternet(), address: 1, inner: 0x0a0a_0001, seed: 1, options: options)
        var random = SeededGenerator(seed: 5)
        var update = UAPIDeviceUpdate()
        let inner = (0..<peers).map { 0x0a0b_0000 + UInt32($0) }
        for address in inner {
            var peer = UAPIPeerUpdate(publicKey: PrivateKey(using: &random).publicKey)
            peer.endpoint = Endpoint(address: .v4(2), port: 9)
            peer.allowedIPs = [.add(try #require(IPPrefix(.v4(address), length: 32)))]
            update.peers.append(peer)
        }
        try host.device.apply(update)
        try host.start()
        return (host, inner)
    }

    private func inject(_ packets: [[UInt8]], into host: TestHost) {
        let before = host.device.laneStatistics.fromDevice.packets
        for packet in packets { #expect(host.tun.inject(packet)) }
        #expect(
            waitUntil(timeout: patience) { host.device.laneStatistics.fromDevice.packets == before + packets.count })
    }

    @Test("Packets without a session are counted over the peer's limit, over the budget, and when they are abandoned")
    func staged() throws {
        var options = WireGuardDevice.Options(budget: .extension)
        options.limits.stagedPacketsPerPeer = 4
        options.limits.stagedBytes = 1_000
        let (host, inner) = try silent(options, peers: 3)
        defer { host.device.close() }
        inject((0..<6).map { _ in packet(to: inner[0]) }, into: host)
        #expect(host.device.statistics.drops["staged over peer limit"] == 2)
        inject((0..<4).map { _ in packet(to: inner[1]) }, into: host)
        inject((0..<3).map { _ in packet(to: inner[2]) }, into: host)
        let drops = host.device.statistics.drops
        #expect(drops["staged over peer limit"] == 2 && drops["staged over budget"] == 1 && drops.total == 3)
        try host.tun.setUp(false)
        #expect(waitUntil(timeout: patience) { host.device.statistics.drops["staged abandoned"] == 10 })
    }

    @Test("By number, packets without a session are bounded too")
    func stagedPackets() throws {
        var options = WireGuardDevice.Options(budget: .extension)
        options.limits.stagedPackets = 5
        let (host, inner) = try silent(options, peers: 3)
        defer { host.device.close() }
        inject((0..<9).map { packet(to: inner[$0 % 3]) }, into: host)
        #expect(host.device.statistics.drops["staged over budget"] == 4)
        #expect(host.device.statistics.drops.total == 4)
    }

    @Test("Packets without a peer, endpoint or socket, and those that the network refuses, are counted")
    func outgoing() throws {
        let (host, inner) = try silent(WireGuardDevice.Options(budget: .extension), peers: 2)
        defer { host.device.close() }
        inject([packet(to: 0x0c00_0001)], into: host)
        #expect(host.device.statistics.drops["no peer"] == 1)
        // An initiation in a family that the host has no socket of.
        var update = UAPIDeviceUpdate()
        let key = try #require(host.device.peers.first?.publicKey)
        var peer = UAPIPeerUpdate(publicKey: key)
        peer.endpoint = Endpoint(address: .v6(1, 2), port: 9)
        update.peers = [peer]
        try host.device.apply(update)
        inject([packet(to: inner[0])], into: host)
        #expect(waitUntil(timeout: patience) { host.device.statistics.drops["no socket"] == 1 })
        // Without its own address a host sends nothing.
        host.network.move(to: [])
        inject([packet(to: inner[1])], into: host)
        #expect(waitUntil(timeout: patience) { host.device.statistics.drops["refused by network"] == 1 })
        #expect(host.device.statistics.drops.total == 3)
    }

    @Test("Handshake messages that find the queue full")
    func outbox() throws {
        var options = WireGuardDevice.Options(budget: .extension)
        options.limits.outboxMessages = 0
        let (host, inner) = try silent(options, peers: 1)
        defer { host.device.close() }
        inject([packet(to: inner[0])], into: host)
        #expect(host.device.statistics.drops["outbox full"] ?? 0 >= 1)
    }
}
