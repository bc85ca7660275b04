// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A lane on one host of an internet in memory, and the bare sockets of another.
private struct Site {
    let internet = MemoryInternet(queueLimit: 100_000)
    let host: MemoryDatagramNetwork
    let sockets: DatagramSockets
    let peer: DatagramSockets
    let device: ScriptedTun
    let transport: FramingTransport
    let lane: Lane
    let failures: FailureLog

    static let local = MemoryAddress.v4(1)
    static let local6 = MemoryAddress.v6(1, 1)
    static let remote = MemoryAddress.v4(2)
    static let remote6 = MemoryAddress.v6(1, 2)

    init(configuration: LaneConfiguration = LaneConfiguration(), withSockets: Bool = true) throws {
        host = internet.attach([Self.local, Self.local6])
        sockets = try host.bind(port: 7, mark: 0)
        peer = try internet.attach([Self.remote, Self.remote6]).bind(port: 8, mark: 0)
        device = try ScriptedTun()
        transport = FramingTransport(remote: Self.remote.endpoint(port: 8))
        let failures = FailureLog()
        self.failures = failures
        lane = try Lane(
            device: device, sockets: withSockets ? sockets : nil, transport: transport, configuration: configuration,
            onFailure: { failures.note($0) })
    }

    /// Sends datagrams from the other host to the lane.
    func sendToLane(_ datagrams: [[UInt8]], isIPv6: Bool = false, port: UInt16 = 7) throws {
        let socket = try #require(isIPv6 ? peer.v6 : peer.v4)
        let address = isIPv6 ? Self.local6 : Self.local
        let outgoing = try batch(of: datagrams, to: address.endpoint(port: port))
        #expect(try socket.send(outgoing, in: 0..<datagrams.count).sent == datagrams.count)
    }
}

private final class FailureLog: Sendable {
    let errors = Mutex<[TunnelIOError]>([])
    let happened = Latch()

    func note(_ error: TunnelIOError) {
        errors.withLock { $0.append(error) }
        happened.open()
    }
}

@Suite("A lane", .timeLimit(.minutes(1)))
struct LaneTests {
    @Test("packets go out sealed and in order, over batches and turns", arguments: [1, 128, 129, 3000])
    func outbound(count: Int) throws {
        let site = try Site()
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
        #expect(statistics.toNetwork.batches >= (count + 127) / 128)
    }

    @Test("datagrams come in opened, and what is none is not delivered", arguments: [false, true])
    func inbound(isIPv6: Bool) throws {
        let site = try Site()
        try site.lane.start()
        let packets = (0..<500).map { pattern(20 + $0 % 1400, seed: $0) }
        try site.sendToLane([[1, 2, 3]] + packets.map(FramingTransport.framed), isIPv6: isIPv6)
        #expect(site.device.written(500) == packets)
        site.lane.stop()
        let statistics = site.lane.statistics
        #expect(statistics.fromNetwork.packets == 501 && statistics.toDevice.packets == 500)
        #expect(statistics.toDevice.bytes == packets.reduce(0) { $0 + $1.count })
    }

    @Test("a packet of the largest size goes both ways")
    func largest() throws {
        let site = try Site()
        let packet = pattern(65_507 - 32, seed: 1)
        site.device.put([packet])
        try site.lane.start()
        #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed(packet)])
        try site.sendToLane([FramingTransport.framed(packet)])
        #expect(site.device.written(1) == [packet])
        site.lane.stop()
    }

    @Test("datagrams of both families mixed in a batch each find their socket")
    func mixedFamilies() throws {
        let site = try Site()
        site.transport.state.withLock { $0.otherRemote = Site.remote6.endpoint(port: 8) }
        let packets = (0..<10).map { pattern(100, seed: $0) }
        site.device.put(packets)
        try site.lane.start()
        let v4 = try receive(5, from: #require(site.peer.v4))
        let v6 = try receive(5, from: #require(site.peer.v6))
        #expect(v4.map(\.bytes) == stride(from: 0, to: 10, by: 2).map { FramingTransport.framed(packets[$0]) })
        #expect(v6.map(\.bytes) == stride(from: 1, to: 10, by: 2).map { FramingTransport.framed(packets[$0]) })
        site.lane.stop()
    }

    @Test("a batch is sent in one call for each family, however they alternate")
    func sendCalls() throws {
        let site = try Site()
        site.transport.state.withLock { $0.otherRemote = Site.remote6.endpoint(port: 8) }
        site.device.put((0..<100).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(50, from: #require(site.peer.v4)).count == 50)
        #expect(try receive(50, from: #require(site.peer.v6)).count == 50)
        site.lane.stop()
        // Each call may wait for a full queue, once.
        #expect(site.lane.statistics.toNetwork.batches == 2 * site.lane.statistics.fromDevice.batches)
    }

    @Test("packets that a device keeps back are asked for though its descriptor is silent")
    func bufferedPackets() throws {
        let internet = MemoryInternet(queueLimit: 100_000)
        let peer = try internet.attach([Site.remote]).bind(port: 8, mark: 0)
        let sockets = try internet.attach([Site.local]).bind(port: 7, mark: 0)
        let device = try HoardingTun(packets: (0..<1000).map { pattern(100, seed: $0) })
        let transport = FramingTransport(remote: Site.remote.endpoint(port: 8))
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

    @Test("what sockets dropped is counted, also when they were replaced")
    func socketDrops() throws {
        let site = try Site()
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

    @Test("without IPv6, what is for it is dropped and counted, and the rest goes on")
    func missingFamily() throws {
        let site = try Site()
        site.lane.replaceSockets(DatagramSockets(v4: site.sockets.v4, v6: nil, port: 7))
        site.transport.state.withLock { $0.otherRemote = Site.remote6.endpoint(port: 8) }
        site.device.put((0..<10).map { pattern(100, seed: $0) })
        try site.lane.start()
        #expect(try receive(5, from: #require(site.peer.v4)).count == 5)
        site.lane.stop()
        #expect(site.lane.statistics.droppedWithoutSocket == 5)
        #expect(site.lane.statistics.toNetwork.packets == 5)
    }

    @Test("a lane without sockets reads its device and drops; given some, it sends")
    func noSockets() throws {
        let site = try Site(withSockets: false)
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

    @Test("what the device refuses is counted")
    func refused() throws {
        let site = try Site()
        site.device.refuse(3)
        try site.lane.start()
        try site.sendToLane((0..<5).map { FramingTransport.framed([$0]) })
        #expect(site.device.written(2) == [[3], [4]])
        site.lane.stop()
        #expect(site.lane.statistics.droppedByDevice == 3)
        #expect(site.lane.statistics.toDevice.packets == 2)
    }

    @Test("waking sends what the transport has waiting, all of it")
    func wake() throws {
        let site = try Site()
        try site.lane.start()
        let pending = (0..<300).map { pattern(50, seed: $0) }
        site.transport.state.withLock { $0.pending = pending }
        site.lane.wake()
        #expect(try receive(300, from: #require(site.peer.v4)).map(\.bytes) == pending)
        site.lane.stop()
    }

    @Test("deadlines are kept, also those there from the start and those moved nearer")
    func deadlines() throws {
        let site = try Site()
        let first = Latch()
        let second = Latch()
        let start = LaneClock.now()
        site.transport.state.withLock { state in
            state.deadline = start + 5_000_000
            state.onDeadline = { transport in
                let count = transport.state.withLock { state in
                    if state.deadlineCalls.count == 1 { state.deadline = start + 3_600_000_000_000 }
                    return state.deadlineCalls.count
                }
                count == 1 ? first.open() : second.open()
            }
        }
        try site.lane.start()
        #expect(first.wait(milliseconds: 5000))
        let near = LaneClock.now() + 5_000_000
        site.transport.state.withLock { $0.deadline = near }
        site.lane.wake()
        #expect(second.wait(milliseconds: 5000))
        site.lane.stop()
        let calls = site.transport.state.withLock { $0.deadlineCalls }
        #expect(calls.count == 2)
        #expect(calls.first.map { $0 >= start + 5_000_000 } == true)
        #expect(calls.last.map { $0 >= near } == true)
    }

    @Test("a deadline that stays in the past does not keep the thread busy")
    func pastDeadline() throws {
        let site = try Site()
        let start = LaneClock.now()
        let over = Latch()
        site.transport.state.withLock { state in
            state.deadline = 1
            state.onDeadline = { transport in
                transport.state.withLock { $0.deadline = 1 }
                if LaneClock.now() > start + 30_000_000 { over.open() }
            }
        }
        try site.lane.start()
        #expect(over.wait(milliseconds: 5000))
        site.lane.stop()
        let elapsed = Int((LaneClock.now() - start) / 1_000_000)
        #expect(site.transport.state.withLock { $0.deadlineCalls.count } <= elapsed + 2)
    }

    @Test("sockets are replaced under traffic, and the old ones are free when the call returns")
    func replaceSockets() throws {
        let site = try Site()
        try site.lane.start()
        var sockets = site.sockets
        for port in UInt16(100)..<120 {
            site.device.put((0..<50).map { pattern(100, seed: $0) })
            let fresh = try site.host.bind(port: port, mark: 0)
            site.lane.replaceSockets(fresh)
            sockets.close()
            sockets = fresh
        }
        #expect(try receive(1000, from: #require(site.peer.v4)).count == 1000)
        try site.sendToLane([FramingTransport.framed([9])], port: 119)
        #expect(site.device.written(1) == [[9]])
        site.lane.stop()
        #expect(site.lane.statistics.droppedByNetwork == 0)
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("a socket that its owner closed takes only itself out")
    func closedSocket() throws {
        let site = try Site()
        try site.lane.start()
        site.sockets.v6?.close()
        try site.sendToLane([FramingTransport.framed([1])])
        #expect(site.device.written(1) == [[1]])
        site.lane.stop()
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("a removed device ends the lane and is told once", arguments: ["reading", "writing"])
    func removed(while doing: String) throws {
        let site = try Site()
        let error = TunnelIOError(.deviceRemoved(name: "scripted0"))
        try site.lane.start()
        if doing == "reading" {
            site.device.fail(error)
        } else {
            site.lane.setDeviceEnabled(false)
            site.device.fail(error)
            try site.sendToLane([FramingTransport.framed([1])])
        }
        #expect(site.failures.happened.wait(milliseconds: 5000))
        // The lane has stopped by itself; nothing hangs on it.
        site.lane.replaceSockets(nil)
        site.lane.setDeviceEnabled(true)
        site.lane.wake()
        site.lane.stop()
        #expect(site.failures.errors.withLock { $0 } == [error])
    }

    @Test("a device that is disabled is not read, and is again once enabled")
    func disabled() throws {
        let site = try Site()
        site.lane.setDeviceEnabled(false)
        site.device.put([[1]])
        try site.lane.start()
        try site.sendToLane([FramingTransport.framed([2])])
        #expect(site.device.written(1) == [[2]])
        #expect(site.device.receives == 0)
        site.lane.setDeviceEnabled(true)
        #expect(try receive(1, from: #require(site.peer.v4)).map(\.bytes) == [FramingTransport.framed([1])])
        site.lane.stop()
    }

    @Test("a device that is ready for nothing does not keep the thread busy, and is not forgotten")
    func fruitlessDevice() throws {
        let site = try Site()
        // The device clears its signal when it is read empty, so that a pipe without a writer stands in for it.
        let device = try HungUpTun()
        let lane = try Lane(
            device: device, sockets: nil, transport: site.transport, onFailure: { site.failures.note($0) })
        let over = Latch()
        site.transport.state.withLock { state in
            state.deadline = LaneClock.now() + 50_000_000
            state.onDeadline = { _ in over.open() }
        }
        try lane.start()
        #expect(over.wait(milliseconds: 5000))
        let early = device.receives.load(ordering: .relaxed)
        #expect(early >= 1 && early <= 32)
        // Looked at again after a while.
        #expect(device.lookedAtAgain.wait(milliseconds: 5000))
        lane.stop()
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("neither direction starves the other")
    func fairness() throws {
        let site = try Site(configuration: LaneConfiguration(packetCount: 4, datagramCount: 4, batchesPerTurn: 2))
        site.device.put((0..<20_000).map { [UInt8(truncatingIfNeeded: $0)] })
        try site.sendToLane([FramingTransport.framed([1])])
        try site.lane.start()
        #expect(site.device.written(1) == [[1]])
        site.lane.stop()
        // At most one turn of the device, of eight packets, came before.
        #expect(site.device.unreadAtFirstWrite.map { $0 >= 20_000 - 8 } == true)
    }

    @Test("stopping under traffic, at once, twice, before the start and from several threads", arguments: 0..<10)
    func stop(round: Int) throws {
        let site = try Site()
        site.device.put((0..<5000).map { pattern(100, seed: $0) })
        try site.sendToLane((0..<1000).map { FramingTransport.framed([UInt8(truncatingIfNeeded: $0)]) })
        try site.lane.start()
        try site.lane.start()
        if round % 2 == 0 { _ = site.device.written(1) }
        let lane = site.lane
        let threads = try (0..<3).map { _ in try LoopThread(name: "stop") { lane.stop() } }
        lane.stop()
        for thread in threads { thread.join() }
        let after = site.lane.statistics
        site.device.put([[1]])
        site.lane.wake()
        #expect(site.lane.statistics == after)
        #expect(throws: TunnelIOError(.closed)) { try site.lane.start() }
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("a lane that was stopped before it started, or never was, hangs nobody")
    func neverStarted() throws {
        let site = try Site()
        site.lane.stop()
        site.lane.replaceSockets(nil)
        site.lane.setDeviceEnabled(true)
        #expect(throws: TunnelIOError(.closed)) { try site.lane.start() }
        _ = try Site()
    }

    @Test("letting go of a running lane stops it")
    func letGo() throws {
        let device = try ScriptedTun()
        let transport = FramingTransport(remote: .none)
        do {
            let lane = try Lane(device: device, sockets: nil, transport: transport, onFailure: { _ in })
            try lane.start()
        }
        device.put([[1]])
        #expect(device.receives == 0)
    }

    @Test("the lane's own thread may stop it and replace its sockets")
    func fromInside() throws {
        let site = try Site()
        let done = Latch()
        let lane = site.lane
        site.transport.state.withLock { state in
            state.deadline = LaneClock.now()
            state.onDeadline = { _ in
                lane.replaceSockets(nil)
                lane.setDeviceEnabled(false)
                lane.stop()
                done.open()
            }
        }
        try site.lane.start()
        #expect(done.wait(milliseconds: 5000))
        site.lane.stop()
    }

    @Test("through the system's sockets on loopback", arguments: [false, true])
    func loopback(isIPv6: Bool) throws {
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

/// A device that reads all at once and gives it bit by bit, and whose descriptor tells of the first read only.
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

/// A socket that says that it dropped so many datagrams.
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

/// A device that polls hung up and never gives anything.
private final class HungUpTun: TunDevice {
    let readiness: Int32
    let receives = Atomic<Int>(0)
    let lookedAtAgain = Latch()

    init() throws {
        var ends: [Int32] = [-1, -1]
        try #require(unsafe pipe(&ends) == 0)
        readiness = ends[0]
        _ = systemClose(ends[1])
    }

    deinit {
        _ = systemClose(readiness)
    }

    func currentName() -> String { "hung0" }
    func currentMTU() -> Int { 1420 }
    func currentLinkState() -> LinkState { LinkState(isUp: true, mtu: 1420) }
    var linkReadiness: Int32? { nil }
    func drainLinkEvents() -> [LinkEvent] { [] }
    func close() {}

    func receive(into batch: PacketBatch) -> Int {
        if receives.wrappingAdd(1, ordering: .relaxed).newValue == 20 { lookedAtAgain.open() }
        return 0
    }

    func send(_ batch: PacketBatch) -> TunSendResult { TunSendResult(sent: 0, dropped: 0) }
}

private func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }
