// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

/// A group of lanes on one host of an internet in memory, and the bare sockets of another.
private final class GroupSite: Sendable {
    static let local = IPAddress.v4(1)
    static let remote = IPAddress.v4(2)

    let internet = MemoryInternet(queueLimit: 100_000)
    let host: MemoryDatagramNetwork
    let peer: DatagramSockets
    let device: MemoryTun
    let transport: FramingTransport
    let group: LaneGroup
    let failures = Mutex<[TunnelIOError]>([])
    let failed = Latch()

    init(_ layout: LaneLayout) throws {
        host = internet.attach([Self.local])
        peer = try internet.attach([Self.remote]).bind(port: 8, mark: 0)
        device = try MemoryTun(queueCapacity: 1 << 15, byteCapacity: 1 << 24)
        transport = FramingTransport(remote: Endpoint(address: Self.remote, port: 8))
        let report = Relay()
        group = try LaneGroup(
            device: device, transport: transport, layout: layout,
            configuration: LaneConfiguration(packetCount: 8, datagramCount: 8, batchesPerTurn: 4)
        ) { report.handler.withLock { $0 }?($0) }
        report.handler.withLock { handler in
            handler = { [weak self] error in
                self?.failures.withLock { $0.append(error) }
                self?.failed.open()
            }
        }
    }

    private final class Relay: Sendable {
        let handler = Mutex<(@Sendable (TunnelIOError) -> Void)?>(nil)
    }

    /// Binds sockets for the lanes and hands them over.
    func bind(port: UInt16) throws -> [DatagramSockets] {
        let sockets = try host.bind(DatagramBinding(port: port), count: group.socketCount)
        group.replaceSockets(sockets)
        return sockets
    }

    /// Packet `sequence` of `flow`.
    static func packet(_ flow: Int, _ sequence: Int) -> [UInt8] {
        PacketBuilder.udp(
            from: .v4(10, 0, 0, 1), port: UInt16(1000 + flow * 11), to: .v4(10, 0, 0, 2), port: 9,
            payload: [UInt8(flow), UInt8(sequence >> 8), UInt8(sequence & 0xff)])
    }

    /// The flow and sequence number of a packet.
    static func read(_ packet: ArraySlice<UInt8>) -> (flow: Int, sequence: Int) {
        let payload = packet.suffix(3)
        let bytes = payload.map(Int.init)
        return bytes.count == 3 ? (bytes[0], bytes[1] << 8 | bytes[2]) : (0, -1)
    }

    /// Whether the numbers of each flow are these, in order.
    static func isInOrder(_ packets: [ArraySlice<UInt8>], flows: Int, count: Int) -> Bool {
        var sequences: [Int: [Int]] = [:]
        for packet in packets {
            let (flow, sequence) = read(packet)
            sequences[flow, default: []].append(sequence)
        }
        return sequences.count == flows && sequences.values.allSatisfy { $0 == Array(0..<count) }
    }
}

/// A device whose system refuses a further queue.
private final class LimitedTun: ForwardingTun {
    static let refusal = TunnelIOError(.device(name: "memory", operation: "add a queue"), errno: 7)

    let device: any TunDevice
    private let left: Mutex<Int>

    init(_ device: any TunDevice, queues: Int) {
        self.device = device
        left = Mutex(queues - 1)
    }

    func check() throws(TunnelIOError) {}

    func makeQueue() throws(TunnelIOError) -> any TunDevice {
        let isRefused = left.withLock { left in
            left -= 1
            return left < 0
        }
        if isRefused { throw Self.refusal }
        return try device.makeQueue()
    }
}

@Suite("A group of lanes", .timeLimit(.minutes(2)))
struct LaneGroupTests {
    static let layouts: [LaneLayout] = [
        .automatic, .server, .single, .perDirection, .many(lanes: 2), .many(lanes: 4),
    ]

    private let flows = 7
    private let count = 400

    @Test(
        "A lane group sends the flows of its device to the network, each in order, and counts all packets",
        arguments: layouts)
    func outbound(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        let sockets = try site.bind(port: 7)
        #expect(Set(sockets.map(\.port)) == [7])
        for sequence in 0..<count {
            for flow in 0..<flows { #expect(site.device.inject(GroupSite.packet(flow, sequence))) }
        }
        try site.group.start()
        let received = try receive(flows * count, from: #require(site.peer.v4))
        #expect(received.allSatisfy { $0.endpoint.port == 7 })
        #expect(GroupSite.isInOrder(received.map { $0.bytes.dropLast(16) }, flows: flows, count: count))
        site.group.stop()
        #expect(site.group.statistics.fromDevice.packets == flows * count)
        #expect(site.group.statistics.toNetwork.packets == flows * count)
        #expect(site.group.laneStatistics.reduce(0) { $0 + $1.toNetwork.packets } == flows * count)
        for sockets in sockets { sockets.close() }
    }

    @Test("A lane group delivers datagrams of peers to the device, those of each peer in order", arguments: layouts)
    func inbound(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        let sockets = try site.bind(port: 7)
        let delivered = Mutex<[[UInt8]]>([])
        let all = Latch()
        let total = flows * count
        unsafe site.device.onDeliver = { packet in
            let bytes = unsafe Array(packet)
            let isLast = delivered.withLock { list in
                list.append(bytes)
                return list.count == total
            }
            if isLast { all.open() }
        }
        try site.group.start()
        // Each flow belongs to a peer with a separate address.
        let peers = try (0..<flows).map { try site.internet.attach([.v4(100 + UInt32($0))]).bind(port: 8, mark: 0) }
        for sequence in 0..<count {
            for (flow, peer) in peers.enumerated() {
                let datagram = FramingTransport.framed(GroupSite.packet(flow, sequence))
                let outgoing = try batch(of: [datagram], to: Endpoint(address: GroupSite.local, port: 7))
                #expect(try #require(peer.v4).send(outgoing, in: 0..<1).sent == 1)
            }
        }
        #expect(all.wait(milliseconds: 10_000))
        site.group.stop()
        #expect(GroupSite.isInOrder(delivered.withLock { $0 }.map { $0[...] }, flows: flows, count: count))
        #expect(site.group.statistics.toDevice.packets == total)
        if layout.needsQueues {
            #expect(site.group.laneStatistics.filter { $0.fromNetwork.packets > 0 }.count > 1)
        }
        for sockets in sockets { sockets.close() }
    }

    @Test(
        "Replaces the sockets of all lanes under load; the old ones are free when the call returns", arguments: layouts)
    func replaceSockets(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        var sockets = try site.bind(port: 99)
        try site.group.start()
        for port in UInt16(100)..<120 {
            for flow in 0..<flows { site.device.inject(GroupSite.packet(flow, Int(port) - 100)) }
            let fresh = try site.bind(port: port)
            for old in sockets { old.close() }
            sockets = fresh
        }
        let received = try receive(20 * flows, from: #require(site.peer.v4))
        #expect(received.count == 20 * flows)
        site.group.replaceSockets([])
        site.group.stop()
        #expect(site.group.statistics.droppedByNetwork == 0)
        #expect(site.failures.withLock { $0 } == [])
    }

    @Test("A lane group can be stopped permanently under load, from several threads at once", arguments: layouts, 0..<5)
    func stop(_ layout: LaneLayout, _ round: Int) throws {
        let site = try GroupSite(layout)
        let sockets = try site.bind(port: 7)
        for sequence in 0..<count {
            for flow in 0..<flows { site.device.inject(GroupSite.packet(flow, sequence)) }
        }
        try site.group.start()
        try site.group.start()
        if round % 2 == 0 { _ = try receive(1, from: #require(site.peer.v4)) }
        let group = site.group
        let threads = try (0..<3).map { _ in try LoopThread(name: "stop") { group.stop() } }
        group.stop()
        for thread in threads { thread.join() }
        let after = group.statistics
        group.wake()
        group.setDeviceEnabled(true)
        group.replaceSockets([])
        #expect(group.statistics == after)
        #expect(throws: TunnelIOError(.closed)) { try group.start() }
        // Packets that were read from the device were sent.
        #expect(after.fromDevice.packets == after.toNetwork.packets)
        #expect(site.failures.withLock { $0 } == [])
        for sockets in sockets { sockets.close() }
    }

    @Test(
        "A lane group can be stopped, and its sockets replaced, on the threads of its lanes",
        arguments: layouts)
    func fromInside(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        _ = try site.bind(port: 7)
        let done = Latch()
        let group = site.group
        site.transport.state.withLock { state in
            state.deadline = LaneClock.now()
            state.onDeadline = { _ in
                group.replaceSockets([])
                group.setDeviceEnabled(false)
                group.stop()
                done.open()
            }
        }
        for flow in 0..<flows { site.device.inject(GroupSite.packet(flow, 0)) }
        try group.start()
        #expect(done.wait(milliseconds: 5000))
        group.stop()
    }

    @Test("A lane group ends as a whole, and reports it once, if the device is removed", arguments: layouts)
    func removed(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        _ = try site.bind(port: 7)
        try site.group.start()
        site.device.removeDevice()
        #expect(site.failed.wait(milliseconds: 5000))
        site.group.stop()
        #expect(site.failures.withLock { $0 } == [TunnelIOError(.deviceRemoved(name: "memory"))])
        #expect(throws: TunnelIOError(.closed)) { try site.group.start() }
    }

    @Test("A lane group can be dropped, unstarted or running, without a hang", arguments: layouts)
    func letGo(_ layout: LaneLayout) throws {
        do {
            let site = try GroupSite(layout)
            _ = try site.bind(port: 7)
        }
        let site = try GroupSite(layout)
        try site.group.start()
        for flow in 0..<flows { site.device.inject(GroupSite.packet(flow, 0)) }
    }

    @Test(
        "An earlier deadline and waiting packets are noticed on any lane", arguments: layouts)
    func duties(_ layout: LaneLayout) throws {
        let site = try GroupSite(layout)
        _ = try site.bind(port: 7)
        let reached = Latch()
        site.transport.state.withLock { state in
            state.deadline = LaneClock.now() + 3_600_000_000_000
            state.onSeal = { [weak transport = site.transport] in
                transport?.state.withLock { state in
                    state.deadline = LaneClock.now()
                    state.pending.append([1])
                    state.onSeal = nil
                }
            }
            state.onDeadline = { _ in reached.open() }
        }
        try site.group.start()
        // On some flow, so on some lane.
        site.device.inject(GroupSite.packet(3, 0))
        #expect(reached.wait(milliseconds: 5000))
        let received = try receive(2, from: #require(site.peer.v4))
        #expect(received.contains { $0.bytes == [1] })
        site.group.stop()
    }

    @Test("A device with one queue gets the layout for one, and a warning with the remedy")
    func oneQueue() throws {
        let device = try ScriptedTun()
        let transport = FramingTransport(remote: .unspecified)
        let group = try LaneGroup(device: device, transport: transport, layout: .many(lanes: 16)) { _ in }
        #expect(group.layout == LaneLayout.automatic.resolved() && group.socketCount == 1)
        let warning = try #require(group.queueWarning)
        #expect(warning.hasPrefix("using 1 instead of 16 lanes: "))
        #expect(warning.contains("create it with IFF_MULTI_QUEUE"))
        for layout in [LaneLayout.automatic, .single, .perDirection, .many(lanes: 1)] {
            #expect(try LaneGroup(device: device, transport: transport, layout: layout) { _ in }.queueWarning == nil)
        }
    }

    @Test("A device that refuses a further queue has as many lanes as queues, and they work")
    func fewQueues() throws {
        let memory = try MemoryTun()
        let device = LimitedTun(memory, queues: 3)
        let internet = MemoryInternet()
        let peer = try internet.attach([GroupSite.remote]).bind(port: 8, mark: 0)
        let transport = FramingTransport(remote: Endpoint(address: GroupSite.remote, port: 8))
        let group = try LaneGroup(device: device, transport: transport, layout: .many(lanes: 8)) { _ in }
        #expect(group.layout == .many(lanes: 3) && group.laneStatistics.count == 3)
        let warning = try #require(group.queueWarning)
        #expect(warning.hasPrefix("using 3 instead of 8 lanes: ") && warning.contains("\(LimitedTun.refusal)"))
        let sockets = try internet.attach([GroupSite.local]).bind(DatagramBinding(port: 7), count: group.socketCount)
        defer { for sockets in sockets + [peer] { sockets.close() } }
        group.replaceSockets(sockets)
        try group.start()
        for flow in 0..<flows { #expect(memory.inject(GroupSite.packet(flow, 0))) }
        #expect(try receive(flows, from: #require(peer.v4)).count == flows)
        group.stop()
    }

    @Test("A removed device is an error, not a reason for fewer lanes")
    func removedBefore() throws {
        let device = try MemoryTun()
        device.removeDevice()
        #expect(throws: TunnelIOError(.deviceRemoved(name: "memory"))) {
            try LaneGroup(
                device: device, transport: FramingTransport(remote: .unspecified), layout: .many(lanes: 2)
            ) { _ in }
        }
    }

    @Test("The warning about fewer sockets than lanes names the error of the next pair")
    func socketWarning() throws {
        let site = try GroupSite(.many(lanes: 4))
        var sockets = try site.host.bind(port: 7, mark: 0)
        defer { sockets.close() }
        #expect(site.group.socketWarning([sockets])?.contains("does not let further sockets share the port") == true)
        let error = TunnelIOError(.bind(port: 7, operation: "socket"))
        sockets.nextPairError = error
        #expect(site.group.socketWarning([sockets]) == "1 instead of 4 lanes receive: \(error)")
    }

    @Test("Fewer sockets than lanes: the others send through the first")
    func fewSockets() throws {
        let site = try GroupSite(.many(lanes: 4))
        let sockets = try site.host.bind(port: 7, mark: 0)
        site.group.replaceSockets([sockets])
        #expect(site.group.socketWarning([sockets])?.hasPrefix("1 instead of 4 lanes receive") == true)
        #expect(site.group.socketWarning([sockets, sockets, sockets, sockets]) == nil)
        #expect(site.group.queueWarning == nil)
        for sequence in 0..<count {
            for flow in 0..<flows { site.device.inject(GroupSite.packet(flow, sequence)) }
        }
        try site.group.start()
        let received = try receive(flows * count, from: #require(site.peer.v4))
        #expect(GroupSite.isInOrder(received.map { $0.bytes.dropLast(16) }, flows: flows, count: count))
        site.group.stop()
        #expect(site.group.statistics.droppedWithoutSocket == 0)
        sockets.close()
    }
}
