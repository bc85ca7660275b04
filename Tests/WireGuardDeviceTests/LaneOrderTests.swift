// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

/// A hub in one of the layouts, and three devices around it, each with its own layout.
private final class Star: Sendable {
    static let hubInner: UInt32 = 0x0a0a_0001
    static let hubOuter: UInt32 = 0xc633_6401
    static let spokeCount = 3

    /// A device with queues for all packets of a test.
    final class Site: Sendable {
        let tun: MemoryTun
        let device: WireGuardDevice
        let network: MemoryDatagramNetwork
        let key: PrivateKey
        let outer: UInt32
        let inner: UInt32

        init(_ internet: MemoryInternet, outer: UInt32, inner: UInt32, seed: UInt64, _ layout: LaneLayout) throws {
            var random = SeededGenerator(seed: seed)
            key = PrivateKey(using: &random)
            tun = try MemoryTun(name: "mem\(seed)", mtu: 1420, queueCapacity: 1 << 15, byteCapacity: 1 << 25)
            network = internet.attach([.v4(outer)])
            self.outer = outer
            self.inner = inner
            var options = WireGuardDevice.Options()
            options.layout = layout
            // Small batches, so that many are under way.
            options.lane = LaneConfiguration(packetCount: 16, datagramCount: 64, batchesPerTurn: 8)
            device = try WireGuardDevice(tun: tun, network: network, options: options)
        }

        func start(port: UInt16 = 51_820) throws {
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(key)
            update.listenPort = port
            try device.apply(update)
            try device.start()
        }

        func add(_ other: Site, endpoint: Bool) throws {
            var peer = UAPIPeerUpdate(publicKey: other.key.publicKey)
            if endpoint { peer.endpoint = Endpoint(address: .v4(other.outer), port: 51_820) }
            peer.allowedIPs = [.add(try #require(IPPrefix(.v4(other.inner), length: 32)))]
            var update = UAPIDeviceUpdate()
            update.peers = [peer]
            try device.apply(update)
        }
    }

    let internet = MemoryInternet(queueLimit: 1 << 16)
    let hub: Site
    let spokes: [Site]

    init(_ layout: LaneLayout, seed: UInt64) throws {
        hub = try Site(internet, outer: Self.hubOuter, inner: Self.hubInner, seed: seed * 10, layout)
        let layouts: [LaneLayout] = [.single, .perDirection, .automatic]
        var spokes: [Site] = []
        for number in 0..<Self.spokeCount {
            spokes.append(
                try Site(
                    internet, outer: Self.hubOuter + 1 + UInt32(number), inner: Self.hubInner + 1 + UInt32(number),
                    seed: seed * 10 + 1 + UInt64(number), layouts[number]))
        }
        self.spokes = spokes
        for spoke in spokes {
            try hub.add(spoke, endpoint: true)
            try spoke.add(hub, endpoint: true)
        }
        try hub.start()
        for spoke in spokes { try spoke.start() }
    }

    func close() {
        hub.device.close()
        for spoke in spokes { spoke.device.close() }
    }
}

/// Watches that the packets of each flow come in the order in which they were sent.
private final class FlowLog: Sendable {
    struct State {
        var last: [UInt64: UInt32] = [:]
        var disordered = 0
        var counted = 0
    }

    let state = Mutex(State())
    let countFrom: UInt32
    let arrived: PacketTunnelTesting.Latch

    /// - Parameters:
    ///   - countFrom: The first sequence number that must not be lost.
    ///   - count: The number of these.
    init(countFrom: UInt32, count: Int) {
        self.countFrom = countFrom
        arrived = PacketTunnelTesting.Latch(count: count)
    }

    func take(_ packet: UnsafeRawBufferPointer) {
        guard packet.count >= 32 else { return }
        func number(_ range: Range<Int>) -> UInt64 {
            range.reduce(0) { unsafe $0 << 8 | UInt64(packet[$1]) }
        }
        let flow = number(12..<16) << 32 | number(20..<22) << 16 | number(22..<24)
        let sequence = UInt32(truncatingIfNeeded: number(28..<32))
        let counts = state.withLock { state in
            if let last = state.last[flow], sequence <= last { state.disordered += 1 }
            state.last[flow] = sequence
            if sequence >= countFrom { state.counted += 1 }
            return sequence >= countFrom
        }
        if counts { arrived.countDown() }
    }
}

@Suite("Lanes of a device", .timeLimit(.minutes(5)))
struct LaneOrderTests {
    static let layouts: [LaneLayout] = [
        .single, .perDirection, .many(lanes: 2), .many(lanes: 4), .many(lanes: LaneLayout.mostServerLanes),
    ]

    private static let flows = 5

    /// Packets of several flows with sequence numbers, flow after flow at random.
    private static func packets(
        from source: UInt32, to destination: UInt32, sequences: Range<UInt32>, seed: UInt64
    ) -> [[UInt8]] {
        var random = SeededGenerator(seed: seed)
        var next = Array(repeating: sequences.lowerBound, count: flows)
        var packets: [[UInt8]] = []
        while let flow = next.indices.filter({ next[$0] < sequences.upperBound }).randomElement(using: &random) {
            let sequence = next[flow]
            next[flow] += 1
            let payload =
                (0..<4).map { UInt8(truncatingIfNeeded: sequence >> (24 - 8 * UInt32($0))) }
                + [UInt8](repeating: 7, count: Int.random(in: 0..<200, using: &random))
            packets.append(
                PacketBuilder.udp(
                    from: .v4(source), port: UInt16(1000 + flow), to: .v4(destination), port: UInt16(2000 + flow * 7),
                    payload: payload))
        }
        return packets
    }

    /// Sends these sequences in all flows between the hub and each spoke, concurrently.
    private func send(_ sequences: Range<UInt32>, in star: Star, seed: UInt64) throws {
        var threads: [LoopThread] = []
        for spoke in star.spokes {
            for (from, to) in [(star.hub, spoke), (spoke, star.hub)] {
                let packets = Self.packets(from: from.inner, to: to.inner, sequences: sequences, seed: seed)
                threads.append(
                    try LoopThread(name: "traffic") { for packet in packets { from.tun.inject(packet) } })
            }
        }
        for thread in threads { thread.join() }
    }

    @Test("Packets of a flow arrive in order, both ways, from before the first handshake on", arguments: layouts, 1...4)
    func order(_ layout: LaneLayout, _ seed: UInt64) throws {
        let star = try Star(layout, seed: seed)
        defer { star.close() }
        let each = 150
        let hubLog = FlowLog(countFrom: 1000, count: Star.spokeCount * Self.flows * each)
        unsafe star.hub.tun.onDeliver = { unsafe hubLog.take($0) }
        let logs = star.spokes.map { _ in FlowLog(countFrom: 1000, count: Self.flows * each) }
        for (spoke, log) in zip(star.spokes, logs) { unsafe spoke.tun.onDeliver = { unsafe log.take($0) } }
        // Before there are sessions some may be lost, but none may pass another; then all must arrive.
        try send(0..<40, in: star, seed: seed)
        for (number, spoke) in star.spokes.enumerated() {
            try #require(session(star.hub, spoke), "no session with \(number)")
        }
        try send(1000..<1000 + UInt32(each), in: star, seed: seed + 100)
        for log in [hubLog] + logs {
            #expect(log.arrived.wait(timeout: patience), "\(log.arrived.count) are missing")
            #expect(log.state.withLock { $0.disordered } == 0)
        }
    }

    @Test("Rebinding and new ports under load lose no session, and order holds", arguments: layouts, 1...2)
    func rebinding(_ layout: LaneLayout, _ seed: UInt64) throws {
        let star = try Star(layout, seed: seed)
        defer { star.close() }
        let each: UInt32 = 60
        let logs = star.spokes.map { _ in FlowLog(countFrom: 1000, count: Self.flows * Int(each)) }
        for (spoke, log) in zip(star.spokes, logs) { unsafe spoke.tun.onDeliver = { unsafe log.take($0) } }
        try send(0..<5, in: star, seed: seed)
        for spoke in star.spokes { try #require(session(star.hub, spoke)) }
        let before = star.hub.device.engineStatistics.handshakesCompleted
        let hub = star.hub
        let changes = try LoopThread(name: "changes") {
            for round in 0..<30 {
                do throws(WireGuardDeviceError) {
                    try hub.device.rebind()
                    var update = UAPIDeviceUpdate()
                    update.listenPort = UInt16(40_000 + round)
                    update.fwMark = UInt32(round)
                    try hub.device.apply(update)
                } catch {
                    Issue.record("\(error)")
                }
            }
        }
        try send(10..<50, in: star, seed: seed + 1)
        changes.join()
        #expect(hub.device.listenPort == 40_029)
        // The spokes learn the hub's last port from its datagrams.
        try send(1000..<1000 + each, in: star, seed: seed + 2)
        for log in logs {
            #expect(log.arrived.wait(timeout: patience), "\(log.arrived.count) are missing")
            #expect(log.state.withLock { $0.disordered } == 0)
        }
        #expect(hub.device.engineStatistics.handshakesCompleted == before)
    }

    @Test("Closing under load ends every thread and tells once why", arguments: layouts, 1...3)
    func closing(_ layout: LaneLayout, _ seed: UInt64) throws {
        let star = try Star(layout, seed: seed)
        let reasons = Mutex<[WireGuardDevice.CloseReason]>([])
        star.hub.device.onClose { reason in reasons.withLock { $0.append(reason) } }
        let hub = star.hub
        let closer = try LoopThread(name: "closer") {
            if seed == 2 {
                hub.tun.removeDevice()
                _ = hub.device.waitUntilClosed()
            } else {
                hub.device.close()
            }
        }
        try send(0..<100, in: star, seed: seed)
        closer.join()
        star.close()
        #expect(reasons.withLock { $0 } == [seed == 2 ? .interfaceRemoved : .requested])
        let after = hub.device.laneStatistics
        #expect(!hub.tun.inject([0x45]))
        #expect(hub.device.laneStatistics == after)
    }

    @Test("An interface that goes down and up under load creates its sessions again", arguments: layouts)
    func downAndUp(_ layout: LaneLayout) throws {
        let star = try Star(layout, seed: 9)
        defer { star.close() }
        try send(0..<5, in: star, seed: 1)
        for round in 0..<5 {
            try star.hub.tun.setUp(round % 2 == 1)
            try send(UInt32(10 + 10 * round)..<UInt32(20 + 10 * round), in: star, seed: UInt64(round))
        }
        try star.hub.tun.setUp(true)
        #expect(waitUntil(timeout: patience) { star.hub.device.listenPort != nil })
        let log = FlowLog(countFrom: 1000, count: 1)
        unsafe star.hub.tun.onDeliver = { unsafe log.take($0) }
        #expect(
            waitUntil(timeout: patience) {
                for packet in Self.packets(
                    from: star.spokes[0].inner, to: star.hub.inner, sequences: 1000..<1001, seed: 1)
                {
                    star.spokes[0].tun.inject(packet)
                }
                return log.arrived.wait(timeout: .milliseconds(20))
            })
    }

    /// Waits until both ends can send immediately.
    private func session(_ one: Star.Site, _ other: Star.Site) -> Bool {
        waitUntil(timeout: patience) {
            [(one, other), (other, one)].allSatisfy { near, far in
                near.device.peer(far.key.publicKey)?.hasSession == true
            }
        }
    }
}
