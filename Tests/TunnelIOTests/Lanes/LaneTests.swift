// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

@Suite("A lane", .timeLimit(.minutes(1)))
struct LaneTests {
    @Test("Packets go out sealed and in order, over batches and turns", arguments: [1, 135, 136, 3000])
    func outbound(count: Int) throws {
        let site = try LaneSite()
        let packets = (0..<count).map { pattern(20 + $0 % 1400, seed: $0) }
        site.device.put(packets)
        try site.lane.start()
        let received = try receive(count, from: #require(site.peer.v4))
        #expect(received.map(\.bytes) == packets.map(FramingTransport.framed))
        site.lane.stop()
        let statistics = site.lane.statistics
        #expect(statistics.fromDevice.packets == count && statistics.toNetwork.packets == count)
        #expect(statistics.fromDevice.bytes == packets.reduce(0) { $0 + $1.count })
        #expect(statistics.toNetwork.bytes == statistics.fromDevice.bytes + 32 * count)
        let most = LaneConfiguration().packetCount
        #expect(statistics.toNetwork.batches >= (count + most - 1) / most)
    }

    @Test("Datagrams are opened, and an invalid one is not delivered", arguments: [false, true])
    func inbound(isIPv6: Bool) throws {
        let site = try LaneSite()
        try site.lane.start()
        let packets = (0..<500).map { pattern(20 + $0 % 1400, seed: $0) }
        try site.sendToLane([[1, 2, 3]] + packets.map(FramingTransport.framed), isIPv6: isIPv6)
        #expect(site.device.written(500) == packets)
        site.lane.stop()
        let statistics = site.lane.statistics
        #expect(statistics.fromNetwork.packets == 501 && statistics.toDevice.packets == 500)
        #expect(statistics.toDevice.bytes == packets.reduce(0) { $0 + $1.count })
    }

    @Test("A packet of the largest size goes both ways")
    func largest() throws {
        let site = try LaneSite()
        let packet = pattern(65_507 - 32, seed: 1)
        site.device.put([packet])
        try site.lane.start()
        #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed(packet)])
        try site.sendToLane([FramingTransport.framed(packet)])
        #expect(site.device.written(1) == [packet])
        site.lane.stop()
    }

    @Test("Datagrams of both families mixed in a batch each find their socket")
    func mixedFamilies() throws {
        let site = try LaneSite()
        site.transport.state.withLock { $0.otherRemote = Endpoint(address: LaneSite.remote6, port: 8) }
        let packets = (0..<10).map { pattern(100, seed: $0) }
        site.device.put(packets)
        try site.lane.start()
        let v4 = try receive(5, from: #require(site.peer.v4))
        let v6 = try receive(5, from: #require(site.peer.v6))
        #expect(v4.map(\.bytes) == stride(from: 0, to: 10, by: 2).map { FramingTransport.framed(packets[$0]) })
        #expect(v6.map(\.bytes) == stride(from: 1, to: 10, by: 2).map { FramingTransport.framed(packets[$0]) })
        site.lane.stop()
    }

    @Test("A batch is sent in one call per family, even if the families alternate")
    func sendCalls() throws {
        let site = try LaneSite()
        site.transport.state.withLock { $0.otherRemote = Endpoint(address: LaneSite.remote6, port: 8) }
        site.device.put((0..<100).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(50, from: #require(site.peer.v4)).count == 50)
        #expect(try receive(50, from: #require(site.peer.v6)).count == 50)
        site.lane.stop()
        // Each call may wait for a full queue, once.
        #expect(site.lane.statistics.toNetwork.batches == 2 * site.lane.statistics.fromDevice.batches)
    }

    @Test("After a pause, a lane reads its device with one call, and then until it is empty")
    func pause() throws {
        let site = try LaneSite(configuration: LaneConfiguration(packetCount: 4, batchesPerTurn: 2))
        site.device.put((0..<8).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(8, from: #require(site.peer.v4)).count == 8)
        site.lane.stop()
        #expect(site.device.readsOnce.prefix(2) == [true, false])
    }

    @Test("The reply to a single packet is read before the device reports it")
    func reply() throws {
        let site = try LaneSite()
        site.device.reply([2])
        try site.lane.start()
        try site.sendToLane([FramingTransport.framed([1])])
        #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed([2])])
        #expect(site.device.written(1) == [[1]])
        site.lane.stop()
    }

    @Test("A lane looks for a reply only if there was one the last time")
    func unexpectedReply() throws {
        let site = try LaneSite()
        try site.lane.start()
        for number in UInt8(1)...3 {
            waitForPause()
            try site.sendToLane([FramingTransport.framed([number])])
            #expect(site.device.written(Int(number)).count == Int(number))
        }
        site.lane.stop()
        #expect(site.device.receives == 1)
        #expect(!site.lane.core.hasDirectReplies)
    }

    @Test("After a reply that the device reported soon, a lane looks for replies again", arguments: [0, Int64.max])
    func replyAgain(replyTime: Int64) throws {
        let site = try LaneSite()
        site.lane.core.replyTime = replyTime
        try site.lane.start()
        try site.sendToLane([FramingTransport.framed([1])])
        #expect(site.device.written(1).count == 1)
        waitForPause()
        site.device.reply([3], isReported: true)
        try site.sendToLane([FramingTransport.framed([2])])
        #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed([3])])
        site.lane.stop()
        #expect(site.lane.core.hasDirectReplies == (replyTime > 0))
    }

    @Test("An answer to a datagram is sent before a reply of the system")
    func answerFirst() throws {
        let site = try LaneSite()
        site.device.reply([2])
        site.transport.state.withLock { $0.answers = [[9]] }
        try site.lane.start()
        try site.sendToLane([FramingTransport.framed([1])])
        let received = try receive(2, from: #require(site.peer.v4)).map(\.bytes)
        #expect(received == [[9], FramingTransport.framed([2])])
        site.lane.stop()
    }

    @Test("The packets of a batch are counted before the next batch of a round")
    func countedAtOnce() throws {
        let site = try LaneSite(configuration: LaneConfiguration(packetCount: 4, batchesPerTurn: 3))
        let counted = Mutex<[Int]>([])
        site.transport.state.withLock { state in
            state.onSeal = { [lane = site.lane] in
                counted.withLock { $0.append(lane.statistics.fromDevice.packets) }
            }
        }
        site.device.put((0..<12).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(12, from: #require(site.peer.v4)).count == 12)
        site.lane.stop()
        site.transport.state.withLock { $0.onSeal = nil }
        #expect(counted.withLock { $0 } == [0, 4, 8])
        #expect(site.lane.statistics.fromDevice.packets == 12)
    }

    /// Lets the time pass after which a lane expects single packets.
    private func waitForPause() {
        let end = LaneClock.now() + 2 * LaneCore.pause
        while LaneClock.now() < end {}
    }

    @Test("Reports of replies that were already read do not make a lane ignore its device")
    func reportedReplies() throws {
        let site = try LaneSite()
        try site.lane.start()
        for number in 0..<UInt8(12) {
            waitForPause()
            site.device.reply([number], isReported: true)
            try site.sendToLane([FramingTransport.framed([1])])
            #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed([number])])
        }
        site.lane.stop()
        #expect(site.device.receives > 12)
        #expect(site.lane.core.deviceWatch.fruitless <= 1)
    }

    @Test("Packets that a device buffers are read although its descriptor reports nothing")
    func bufferedPackets() throws {
        let internet = MemoryInternet(queueLimit: 100_000)
        let peer = try internet.attach([LaneSite.remote]).bind(port: 8, mark: 0)
        let sockets = try internet.attach([LaneSite.local]).bind(port: 7, mark: 0)
        let device = try HoardingTun(packets: (0..<1000).map { pattern(100, seed: $0) })
        let transport = FramingTransport(remote: Endpoint(address: LaneSite.remote, port: 8))
        let lane = try Lane(
            device: device, sockets: sockets, transport: transport,
            configuration: LaneConfiguration(packetCount: 4, batchesPerTurn: 2), onFailure: { _ in })
        try lane.start()
        let received = try receive(1000, from: #require(peer.v4))
        #expect(received.map(\.bytes) == (0..<1000).map { FramingTransport.framed(pattern(100, seed: $0)) })
        lane.stop()
        #expect(!device.hasBufferedPackets)
        #expect(lane.statistics.malformedFromDevice == 3)
    }

    @Test("Datagrams that sockets dropped are counted, even after the sockets were replaced")
    func socketDrops() throws {
        let site = try LaneSite()
        let first = DroppingSocket(try #require(site.sockets.v4), dropped: 5)
        site.lane.replaceSockets(DatagramSockets(v4: first, v6: site.sockets.v6, port: 7))
        try site.lane.start()
        try site.sendToLane([FramingTransport.framed([1])])
        #expect(site.device.written(1) == [[1]])
        let second = DroppingSocket(try #require(site.sockets.v4), dropped: 2)
        site.lane.replaceSockets(DatagramSockets(v4: second, v6: nil, port: 7))
        try site.sendToLane([FramingTransport.framed([2])])
        #expect(site.device.written(2) == [[1], [2]])
        site.lane.stop()
        #expect(site.lane.statistics.droppedBySocket == 7)
    }

    @Test("Without IPv6, its datagrams are dropped and counted, and the others are sent")
    func missingFamily() throws {
        let site = try LaneSite()
        site.lane.replaceSockets(DatagramSockets(v4: site.sockets.v4, v6: nil, port: 7))
        site.transport.state.withLock { $0.otherRemote = Endpoint(address: LaneSite.remote6, port: 8) }
        site.device.put((0..<10).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(5, from: #require(site.peer.v4)).count == 5)
        site.lane.stop()
        #expect(site.lane.statistics.droppedWithoutSocket == 5)
        #expect(site.lane.statistics.toNetwork.packets == 5)
    }

    @Test("A lane without sockets reads its device and drops; given some, it sends")
    func noSockets() throws {
        let site = try LaneSite(withSockets: false)
        site.device.put((0..<300).map { pattern(100, seed: $0) })
        let drained = Latch()
        site.transport.state.withLock { state in
            state.deadline = LaneClock.now() + 1_000_000
            state.onDeadline = { _ in drained.open() }
        }
        try site.lane.start()
        #expect(drained.wait(milliseconds: 5000))
        site.lane.replaceSockets(site.sockets)
        site.device.put([[1]])
        let received = try receive(1, from: #require(site.peer.v4))
        site.lane.stop()
        let statistics = site.lane.statistics
        #expect(received.last?.bytes == FramingTransport.framed([1]))
        #expect(statistics.fromDevice.packets == 301)
        #expect(statistics.droppedWithoutSocket + statistics.toNetwork.packets == 301)
    }

    @Test("Packets that the device refuses are counted")
    func refused() throws {
        let site = try LaneSite()
        site.device.refuse(3)
        try site.lane.start()
        try site.sendToLane((0..<5).map { FramingTransport.framed([$0]) })
        #expect(site.device.written(2) == [[3], [4]])
        site.lane.stop()
        #expect(site.lane.statistics.droppedByDevice == 3)
        #expect(site.lane.statistics.toDevice.packets == 2)
    }

    @Test("Packets go through the system's sockets on loopback", arguments: [false, true])
    func loopback(isIPv6: Bool) throws {
        try cancelWithoutIPv6(isIPv6)
        let near = try SystemDatagramNetwork().bind(port: 0, mark: 0)
        let far = try SystemDatagramNetwork().bind(port: 0, mark: 0)
        defer {
            near.close()
            far.close()
        }
        let nearDevice = try ScriptedTun()
        let farDevice = try ScriptedTun()
        let there = FramingTransport(remote: .loopback(isIPv6: isIPv6, port: far.port))
        let back = FramingTransport(remote: .loopback(isIPv6: isIPv6, port: near.port))
        let nearLane = try Lane(device: nearDevice, sockets: near, transport: there, onFailure: { _ in })
        let farLane = try Lane(device: farDevice, sockets: far, transport: back, onFailure: { _ in })
        let packets = (0..<400).map { pattern(20 + $0 % 1400, seed: $0) }
        try nearLane.start()
        try farLane.start()
        nearDevice.put(packets)
        #expect(farDevice.written(400) == packets)
        farDevice.put(packets)
        #expect(nearDevice.written(400) == packets)
        nearLane.stop()
        farLane.stop()
    }
}

/// A device that reads all packets together and returns them in parts. Its descriptor reports only the first read.
private final class HoardingTun: TunDevice {
    private let packets: Mutex<ArraySlice<[UInt8]>>
    private let signal: WakeSignal

    init(packets: [[UInt8]]) throws {
        self.packets = Mutex(packets[...])
        signal = try WakeSignal()
        signal.raise()
    }

    func currentName() -> String { "hoarding0" }
    func currentMTU() -> Int { 1420 }
    func currentLinkState() -> LinkState { LinkState(isUp: true, mtu: 1420) }
    var readiness: Int32 { signal.descriptor }
    var linkReadiness: Int32? { nil }
    func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }
    func drainLinkEvents() -> [LinkEvent] { [] }
    func close() {}
    var hasBufferedPackets: Bool { packets.withLock { !$0.isEmpty && $0.startIndex > 0 } }

    var statistics: TunStatistics {
        var statistics = TunStatistics()
        statistics.malformedFrames = 3
        return statistics
    }

    func receive(into batch: PacketBatch) -> Int {
        signal.clear()
        return packets.withLock { packets in
            let before = batch.count
            while let packet = packets.first, batch.count < batch.packetCapacity {
                batch.alignTail(to: 64)
                batch.append(copying: packet)
                packets.removeFirst()
            }
            return batch.count - before
        }
    }

    func send(_ batch: PacketBatch) -> TunSendResult { TunSendResult(sent: 0, dropped: 0) }
}

/// A socket that reports this many dropped datagrams.
private final class DroppingSocket: DatagramSocket {
    private let socket: any DatagramSocket
    let receiveDrops: DatagramReceiveDrops

    init(_ socket: any DatagramSocket, dropped: Int) {
        self.socket = socket
        receiveDrops = DatagramReceiveDrops(oversize: 1, overflowed: dropped - 1)
    }

    var isIPv6: Bool { socket.isIPv6 }
    var port: UInt16 { socket.port }
    var readiness: Int32 { socket.readiness }
    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int { try socket.receive(into: batch) }
    func send(_ batch: PacketBatch, in range: Range<Int>) throws(TunnelIOError) -> DatagramSendResult {
        try socket.send(batch, in: range)
    }
    func setMark(_ mark: UInt32) throws(TunnelIOError) { try socket.setMark(mark) }
    func close() { socket.close() }
}
