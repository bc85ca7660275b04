// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
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

@Suite("A lane's life", .timeLimit(.minutes(1)))
struct LaneLifeTests {
    @Test("Waking a lane sends all packets that wait in the transport")
    func wake() throws {
        let site = try LaneSite()
        try site.lane.start()
        let pending = (0..<300).map { pattern(50, seed: $0) }
        site.transport.state.withLock { $0.pending = pending }
        site.lane.wake()
        #expect(try receive(300, from: #require(site.peer.v4)).map(\.bytes) == pending)
        site.lane.stop()
    }

    @Test("Deadlines are met, including initial ones and those moved forward")
    func deadlines() throws {
        let site = try LaneSite()
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

    @Test("A deadline that stays in the past does not keep the thread busy")
    func pastDeadline() throws {
        let site = try LaneSite()
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

    @Test("Sockets are replaced under traffic, and the old ones are free when the call returns")
    func replaceSockets() throws {
        let site = try LaneSite()
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

    @Test("A socket that its owner closed takes only itself out")
    func closedSocket() throws {
        let site = try LaneSite()
        try site.lane.start()
        site.sockets.v6?.close()
        try site.sendToLane([FramingTransport.framed([1])])
        #expect(site.device.written(1) == [[1]])
        site.lane.stop()
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("A removed device ends the lane and is reported once", arguments: ["reading", "writing"])
    func removed(while doing: String) throws {
        let site = try LaneSite()
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

    @Test("A device that is disabled is not read, and is again once enabled")
    func disabled() throws {
        let site = try LaneSite()
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

    @Test("A device that is ready for nothing does not keep the thread busy, and is not forgotten")
    func fruitlessDevice() throws {
        let site = try LaneSite()
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
        // Checked again after a while.
        #expect(device.lookedAtAgain.wait(milliseconds: 5000))
        lane.stop()
        #expect(site.failures.errors.withLock { $0 } == [])
    }

    @Test("Neither direction starves the other")
    func fairness() throws {
        let site = try LaneSite(configuration: LaneConfiguration(packetCount: 4, datagramCount: 4, batchesPerTurn: 2))
        site.device.put((0..<20_000).map { [UInt8(truncatingIfNeeded: $0)] })
        try site.sendToLane([FramingTransport.framed([1])])
        try site.lane.start()
        #expect(site.device.written(1) == [[1]])
        site.lane.stop()
        // At most one turn of the device, of eight packets, came before.
        #expect(site.device.unreadAtFirstWrite.map { $0 >= 20_000 - 8 } == true)
    }

    @Test(
        "A lane can be stopped under traffic, immediately, twice, before the start and from several threads",
        arguments: 0..<10)
    func stop(round: Int) throws {
        let site = try LaneSite()
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

    @Test("A lane that was stopped before its start, or was never started, causes no hang")
    func neverStarted() throws {
        let site = try LaneSite()
        site.lane.stop()
        site.lane.replaceSockets(nil)
        site.lane.setDeviceEnabled(true)
        #expect(throws: TunnelIOError(.closed)) { try site.lane.start() }
        _ = try LaneSite()
    }

    @Test("Letting go of a running lane stops it")
    func letGo() throws {
        let device = try ScriptedTun()
        let transport = FramingTransport(remote: .unspecified)
        do {
            let lane = try Lane(device: device, sockets: nil, transport: transport, onFailure: { _ in })
            try lane.start()
        }
        device.put([[1]])
        #expect(device.receives == 0)
    }

    @Test("The lane's own thread may stop it and replace its sockets")
    func fromInside() throws {
        let site = try LaneSite()
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
    var hasBufferedPackets: Bool { false }
    var statistics: TunStatistics { TunStatistics() }
    func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }
    func drainLinkEvents() -> [LinkEvent] { [] }
    func close() {}

    func receive(into batch: PacketBatch) -> Int {
        if receives.wrappingAdd(1, ordering: .relaxed).newValue == 20 { lookedAtAgain.open() }
        return 0
    }

    func send(_ batch: PacketBatch) -> TunSendResult { TunSendResult(sent: 0, dropped: 0) }
}

private func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }
