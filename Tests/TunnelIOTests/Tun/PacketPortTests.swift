// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

@Suite("PacketPort", .timeLimit(.minutes(1)))
struct PacketPortTests {
    // MARK: - Without waiting

    @Test("Packets are received one at a time, then none")
    func one() throws {
        let (tun, port) = try make()
        #expect(try port.receiveNow() == nil)
        for number in 0..<3 { tun.inject(packet(number)) }
        #expect(try port.receiveNow() == packet(0))
        #expect(try port.receive() == packet(1))
        #expect(try port.receive(timeout: .seconds(5)) == packet(2))
        #expect(try port.receive(timeout: .zero) == nil)
    }

    @Test("A batch receives the available packets that it has room for")
    func many() throws {
        let (tun, port) = try make()
        for number in 0..<5 { tun.inject(packet(number)) }
        let batch = try PacketBatch(packetCapacity: 3, byteCapacity: 1 << 18)
        #expect(try port.receive(into: batch) == 3)
        #expect(try port.receive(into: batch) == 0, "the batch is full, so that there is nothing to wait for")
        batch.removeAll()
        #expect(try port.receive(into: batch, timeout: .zero) == 2)
        #expect((0..<2).map { batch.copy(of: $0) } == [packet(3), packet(4)])
        batch.removeAll()
        #expect(try port.receive(into: batch, timeout: .zero) == 0)
    }

    @Test("A batch without room for another packet is full, and a call with it does not wait")
    func noRoom() throws {
        let (tun, port) = try make(mtu: 65_535)
        let batch = try PacketBatch(packetCapacity: 8, byteCapacity: 1 << 17)
        for number in 0..<3 { tun.inject(packet(number, length: 60_000)) }
        #expect(try port.receive(into: batch) == 2)
        #expect(try port.receive(into: batch) == 0)
        #expect(batch.count == 2)
        #expect(try port.receiveNow() == packet(2, length: 60_000))
    }

    @Test("A packet is spread over buffers, and one that is too long is cut and says how long it was")
    func vectored() throws {
        let (tun, port) = try make()
        for _ in 0..<2 { tun.inject(packet(1, length: 50)) }
        let whole = packet(1, length: 50)
        var (first, none, last) = ([UInt8](repeating: 0, count: 20), [UInt8](), [UInt8](repeating: 0xee, count: 40))
        let length = try unsafe first.withUnsafeMutableBytes { one in
            try unsafe none.withUnsafeMutableBytes { two in
                try unsafe last.withUnsafeMutableBytes { three in
                    unsafe try port.receive(into: [one, two, three])
                }
            }
        }
        #expect(length == 50)
        #expect(first + last == whole + [UInt8](repeating: 0xee, count: 10))
        var short = [UInt8](repeating: 0, count: 20)
        let full = try unsafe short.withUnsafeMutableBytes { unsafe try port.receive(into: $0) }
        #expect(full == 50)
        #expect(short == Array(whole[..<20]))
    }

    @Test("Packets are sent from one piece, several, or a batch")
    func send() throws {
        let (tun, port) = try make()
        #expect(try port.send(packet(0)))
        let pieces = [Array(packet(1)[..<7]), [], Array(packet(1)[7...])]
        let isSent = try unsafe pieces[0].withUnsafeBytes { one in
            try unsafe pieces[1].withUnsafeBytes { two in
                try unsafe pieces[2].withUnsafeBytes { three in
                    unsafe try port.send(gathering: [one, two, three])
                }
            }
        }
        #expect(isSent)
        let batch = try PacketBatch(packetCapacity: 2, byteCapacity: 4096)
        batch.append(copying: packet(2))
        #expect(try port.send(batch) == TunSendResult(sent: 1, dropped: 0))
        #expect(tun.takeDelivered() == (0..<3).map { packet($0) })
        #expect(try !port.send([]))
        #expect(try !port.send([0xff, 1]))
        #expect(try !port.send([UInt8](repeating: 0x45, count: 65_536)))
    }

    // MARK: - Waiting on a thread

    @Test("The end of patience comes when it is due, and not before", arguments: [1, 30])
    func timeout(_ milliseconds: Int64) throws {
        let (_, port) = try make()
        let start = LaneClock.now()
        #expect(try port.receive(timeout: .milliseconds(milliseconds)) == nil)
        #expect(LaneClock.now() - start >= milliseconds * 1_000_000)
        #expect(try port.receive(timeout: .milliseconds(-5)) == nil)
    }

    @Test("Deadlines beyond all time do not overflow")
    func deadlines() {
        #expect(LaneClock.deadline(after: .seconds(Int64.max)) == .max)
        #expect(LaneClock.deadline(after: .seconds(Int64.min)) == .min)
        #expect(LaneClock.deadline(after: .seconds(9_223_372_036)) == .max)
        #expect(LaneClock.deadline(after: .seconds(1)) > LaneClock.now())
    }

    @Test("A deadline before all time has passed")
    func longOver() throws {
        let (_, port) = try make()
        #expect(try port.receive(timeout: .seconds(Int64.min)) == nil)
    }

    @Test("A packet wakes who waits")
    func wakes() throws {
        let (tun, port) = try make()
        let waiter = try Waiter(port)
        tun.inject(packet(7))
        #expect(waiter.outcome() == .packet(packet(7)))
    }

    @Test("An interruption ends every wait, is remembered, and can be reset")
    func interrupt() throws {
        let (tun, port) = try make()
        let waiters = try (0..<3).map { _ in try Waiter(port) }
        port.interrupt()
        for waiter in waiters { #expect(waiter.outcome() == .failure(.interrupted)) }
        #expect(throws: TunnelIOError(.interrupted)) { try port.receive() }
        #expect(throws: TunnelIOError(.interrupted)) { try port.receiveNow() }
        tun.inject(packet(1))
        #expect(try port.send(packet(2)))
        #expect(port.isInterrupted)
        port.resetInterrupt()
        #expect(try port.receive() == packet(1), "an interruption loses nothing")
        #expect(try port.receive(timeout: .milliseconds(1)) == nil, "nothing of it is left")
    }

    @Test("Closing ends every wait immediately")
    func close() throws {
        let (tun, port) = try make()
        let waiters = try (0..<3).map { _ in try Waiter(port) }
        port.close()
        port.close()
        for waiter in waiters { #expect(waiter.outcome() == .failure(.closed)) }
        #expect(throws: TunnelIOError(.closed)) { try port.receive() }
        #expect(throws: TunnelIOError(.closed)) { try port.send(packet(1)) }
        #expect(throws: TunnelIOError(.closed)) { try tun.currentName() }
        port.interrupt()
        #expect(!port.isInterrupted)
    }

    @Test("The removal of the device stops who waits")
    func removal() throws {
        let (tun, port) = try make()
        let waiter = try Waiter(port)
        tun.removeDevice()
        #expect(waiter.outcome() == .failure(.deviceRemoved(name: "memory")))
    }

    @Test("Each packet goes to one of many who wait, and none is lost")
    func crowd() throws {
        let (tun, port) = try make()
        let waiters = try (0..<8).map { _ in try Waiter(port) }
        for number in 0..<8 { tun.inject(packet(number)) }
        let outcomes = waiters.map { $0.outcome() }
        for number in 0..<8 { #expect(outcomes.filter { $0 == .packet(packet(number)) }.count == 1) }
    }

    @Test("Packets that the device keeps back wake who waits, although no descriptor tells of them")
    func keptBack() throws {
        let tun = try HoardingTun()
        let port = try PacketPort(tun)
        let waiters = try (0..<4).map { _ in try Waiter(port) }
        tun.give((0..<4).map { packet($0) })
        let outcomes = waiters.map { $0.outcome() }
        for number in 0..<4 { #expect(outcomes.filter { $0 == .packet(packet(number)) }.count == 1) }
    }

    // MARK: - Waiting as a task

    @Test("Each packet goes to one of the waiting tasks")
    func tasks() async throws {
        let (tun, port) = try make()
        let numbers = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<64 { group.addTask { try await port.nextPacket() } }
            for number in 0..<64 {
                while !tun.inject(packet(number)) {}
                if number % 8 == 0 { await Task.yield() }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(numbers) == Set((0..<64).map { packet($0) }))
    }

    @Test("A task that is cancelled stops waiting, before as well as after it began")
    func cancellation() async throws {
        let (tun, port) = try make()
        for isEarly in [true, false] {
            let task = Task { () async -> TunnelIOError? in
                do throws(TunnelIOError) {
                    _ = try await port.nextPacket()
                    return nil
                } catch { return error }
            }
            if !isEarly { while port.waiters.count == 0 { await Task.yield() } }
            task.cancel()
            #expect(await task.value == TunnelIOError(.cancelled))
        }
        // A reader of all packets has no error to catch.
        let reading = Task {
            var count = 0
            for try await _ in port.packets { count += 1 }
            return count
        }
        while port.waiters.count == 0 { await Task.yield() }
        reading.cancel()
        #expect(try await reading.value == 0)
        tun.inject(packet(3))
        #expect(try await port.nextPacket() == packet(3))
        #expect(port.waiters.count == 0)
    }

    @Test("Interrupting, closing and removing stop tasks that wait")
    func stops() async throws {
        for (stop, code) in Self.stops {
            let (tun, port) = try make()
            let task = Task { () async -> TunnelIOError? in
                do throws(TunnelIOError) {
                    _ = try await port.nextPacket()
                    return nil
                } catch { return error }
            }
            while port.waiters.count == 0 { await Task.yield() }
            stop(tun, port)
            #expect(await task.value?.code == code)
        }
    }

    private static let stops: [(@Sendable (MemoryTun, PacketPort) -> Void, TunnelIOError.Code)] = [
        ({ $1.interrupt() }, .interrupted), ({ $1.close() }, .closed),
        ({ tun, _ in tun.removeDevice() }, .deviceRemoved(name: "memory")),
    ]

    @Test("The sequence of packets ends when the port is closed")
    func sequence() async throws {
        let (tun, port) = try make()
        for number in 0..<10 { tun.inject(packet(number)) }
        var seen: [[UInt8]] = []
        for try await packet in port.packets {
            seen.append(packet)
            if seen.count == 10 { port.close() }
        }
        #expect(seen == (0..<10).map { packet($0) })
    }

    @Test("A task waits on the caller's loop, and then reads the remaining packets as a batch")
    func batches() async throws {
        let loop = try EventLoop()
        try loop.startThread(name: "test")
        let tun = try MemoryTun()
        let port = try PacketPort(tun, loop: loop)
        let task = Task {
            let batch = try PacketBatch(packetCapacity: 8, byteCapacity: 1 << 18)
            let first = try await port.nextPacket()
            let count = try port.receive(into: batch, timeout: .zero)
            return [first] + (0..<count).map { batch.copy(of: $0) }
        }
        while port.waiters.count == 0 { await Task.yield() }
        let packets = try PacketBatch()
        for number in 5..<8 { packets.append(copying: packet(number)) }
        #expect(tun.inject(packets) == 3)
        #expect(try await task.value == [packet(5), packet(6), packet(7)])
        for number in 1..<3 { #expect(try port.send(packet(number))) }
        #expect(try !port.send([0xff]))
        #expect(tun.takeDelivered() == [packet(1), packet(2)])
        port.close()
        loop.stop()
        try loop.join()
    }

    // MARK: - Helpers

    /// A thread in the middle of ``PacketPort/receive(timeout:)``.
    private final class Waiter: Sendable {
        enum Outcome: Equatable {
            case packet([UInt8]?)
            case failure(TunnelIOError.Code)
        }

        private let thread: LoopThread

        init(_ port: PacketPort) throws {
            let box = Box()
            thread = try LoopThread(name: "waiter") {
                do throws(TunnelIOError) {
                    // Reached only if something does not work.
                    let packet = try port.receive(timeout: .seconds(20))
                    box.outcome.withLock { $0 = .packet(packet) }
                } catch {
                    box.outcome.withLock { $0 = .failure(error.code) }
                }
            }
            self.box = box
            while port.blockedThreads == 0 {}
        }

        private let box: Box
        private final class Box: Sendable {
            let outcome = Mutex<Outcome?>(nil)
        }

        /// The outcome, within a moment.
        func outcome() -> Outcome? {
            let start = LaneClock.now()
            thread.join()
            #expect(LaneClock.now() - start < 5_000_000_000)
            return box.outcome.withLock { $0 }
        }
    }

    private func make(mtu: Int = 1420) throws -> (MemoryTun, PacketPort) {
        let tun = try MemoryTun(mtu: mtu)
        return (tun, try PacketPort(tun))
    }

    private func packet(_ number: Int, length: Int = 21) -> [UInt8] {
        PacketBuilder.ipPacket(
            from: .v4(10, 0, 0, 1), to: .v4(10, 0, 0, 2), number: 253,
            payload: [UInt8](repeating: UInt8(number), count: length - 20))
    }
}

/// Signals once for several packets, as a device does that reads them joined.
private final class HoardingTun: TunDevice {
    private let signal: WakeSignal
    private let packets = Mutex<(isRead: Bool, list: [[UInt8]])>((false, []))

    init() throws { signal = try WakeSignal() }

    func give(_ list: [[UInt8]]) {
        packets.withLock { $0 = (false, list) }
        signal.raise()
    }

    var readiness: Int32 { signal.descriptor }
    let linkReadiness: Int32? = nil
    var hasBufferedPackets: Bool { packets.withLock { $0.isRead && !$0.list.isEmpty } }

    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        packets.withLock { state in
            state.isRead = true
            signal.clear()
            guard !state.list.isEmpty else { return 0 }
            batch.append(copying: state.list.removeFirst())
            return 1
        }
    }

    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult { TunSendResult(sent: 0, dropped: 0) }
    func currentName() throws(TunnelIOError) -> String { "hoard" }
    func currentMTU() throws(TunnelIOError) -> Int { 1420 }
    func currentLinkState() throws(TunnelIOError) -> LinkState { LinkState(isUp: true, mtu: 1420) }
    var statistics: TunStatistics { TunStatistics() }
    func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }
    func drainLinkEvents() -> [LinkEvent] { [] }
    func close() {}
}
