// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("Packet flow", .timeLimit(.minutes(1)))
struct PacketFlowTests {
    static func packet(_ number: Int) -> [UInt8] {
        PacketBuilder.udp(
            from: .v4(10, 0, 0, 2), port: 1, to: .v4(10, 0, 0, 1), port: 2, payload: [UInt8(truncatingIfNeeded: number)]
        )
    }

    static func batch(_ packets: [[UInt8]] = []) throws -> PacketBatch {
        let batch = try PacketBatch()
        for packet in packets { batch.append(copying: packet) }
        return batch
    }

    @Test("A flow reads the available packets, whole batches at a time")
    func read() async throws {
        let device = try MemoryTun()
        let flow = PacketFlow(device: device)
        for number in 0..<3 { #expect(device.inject(Self.packet(number))) }
        let batch = try Self.batch([[1, 2, 3]])
        #expect(try await flow.read(into: batch) == 3)
        #expect((0..<3).map(batch.copy(of:)) == (0..<3).map(Self.packet))
        #expect(try flow.currentMTU() == 1420)
    }

    @Test("A data plane has the whole interface, with its counters and further queues")
    func wholeDevice() throws {
        let memory = try MemoryTun()
        let flow = PacketFlow(device: CountingTun(memory))
        let device = try flow.leaseDevice()
        #expect(device.statistics == CountingTun.counted)
        #expect(device.hasBufferedPackets)
        let queue = try device.makeQueue()
        for number in 0..<64 { memory.inject(Self.packet(number)) }
        #expect(try queue.currentName() == "memory")
        device.close()
        #expect(throws: TunnelIOError(.closed)) { _ = try device.makeQueue() }
        #expect(try memory.currentLinkState().isUp)
    }

    @Test("Reading waits for an interface, and then for packets")
    func readWaits() async throws {
        let flow = PacketFlow()
        let started = Event()
        let reading = Task {
            let batch = try Self.batch()
            started.signal()
            let count = try await flow.read(into: batch)
            return (0..<count).map(batch.copy(of:))
        }
        #expect(await started.wait(timeout: .seconds(120)))
        let device = try MemoryTun()
        flow.attach(device)
        await Task.yield()
        device.inject(Self.packet(5))
        #expect(try await reading.value == [Self.packet(5)])
    }

    @Test("Writing accepts as many packets as there is room for, and returns their number")
    func pushBack() async throws {
        let device = try MemoryTun(queueCapacity: 2)
        let flow = PacketFlow(device: device)
        let batch = try Self.batch((0..<3).map(Self.packet))
        #expect(try flow.write(batch) == 2)
        #expect((0..<3).map { batch[$0].length > 0 } == [false, false, true])
        #expect(try flow.write(batch) == 0)
        #expect(device.takeDelivered() == [Self.packet(0), Self.packet(1)])
        #expect(try flow.write(batch) == 1)
        #expect(device.takeDelivered() == [Self.packet(2)])
        #expect(flow.droppedCount == 0)
    }

    @Test("An impossible packet is dropped and counted, and does not block others")
    func drops() throws {
        let device = try MemoryTun(mtu: 100)
        let flow = PacketFlow(device: device)
        let batch = try Self.batch([[0x20, 1], Self.packet(1), [0x45] + [UInt8](repeating: 0, count: 100)])
        #expect(try flow.write(batch) == 3)
        #expect(flow.droppedCount == 2)
        #expect(device.takeDelivered() == [Self.packet(1)])
    }

    @Test("Writing all waits for room")
    func writeAll() async throws {
        let device = try MemoryTun(queueCapacity: 4)
        let flow = PacketFlow(device: device)
        let writing = Task {
            try await flow.writeAll(Self.batch((0..<60).map(Self.packet)))
        }
        var taken: [[UInt8]] = []
        while taken.count < 60 {
            taken += device.takeDelivered()
            await Task.yield()
        }
        try await writing.value
        #expect(taken == (0..<60).map(Self.packet))
    }

    @Test("Two flows push back on each other, and lose nothing", arguments: [1, 3, 64])
    func link(_ capacity: Int) async throws {
        let (one, two) = (
            try MemoryTun(queueCapacity: capacity), try MemoryTun(queueCapacity: capacity)
        )
        MemoryTun.connect(one, two)
        let (from, to) = (PacketFlow(device: one), PacketFlow(device: two))
        let writing = Task {
            for round in 0..<10 {
                try await from.writeAll(Self.batch((0..<50).map { Self.packet(round * 50 + $0) }))
            }
        }
        let batch = try Self.batch()
        var read: [[UInt8]] = []
        while read.count < 500 {
            let count = try await to.read(into: batch)
            read += (0..<count).map(batch.copy(of:))
        }
        try await writing.value
        #expect(read == (0..<500).map(Self.packet))
    }

    @Test("Closing ends the waits")
    func close() async throws {
        let device = try MemoryTun(queueCapacity: 1)
        let flow = PacketFlow(device: device)
        let reading = Task { () async -> TunnelError.Code? in
            do {
                _ = try await flow.read(into: Self.batch())
                return nil
            } catch {
                return (error as? TunnelError)?.code
            }
        }
        let writing = Task { () async -> TunnelError.Code? in
            do {
                try await flow.writeAll(Self.batch((0..<2).map(Self.packet)))
                return nil
            } catch {
                return (error as? TunnelError)?.code
            }
        }
        await Task.yield()
        flow.close()
        flow.close()
        #expect(await reading.value == .closed)
        #expect(await writing.value == .closed)
        #expect(throws: TunnelError.self) { try flow.write(Self.batch()) }
        #expect(throws: TunnelIOError.self) { try device.currentMTU() }
        #expect(flow.isClosed)
    }

    @Test("Reading ends with its task")
    func cancel() async throws {
        let flow = PacketFlow(device: try MemoryTun())
        let reading = Task { try await flow.read(into: Self.batch()) }
        reading.cancel()
        await #expect(throws: TunnelError.self) { try await reading.value }
    }

    @Test("A data plane has the interface to itself until it closes it")
    func lease() async throws {
        let flow = PacketFlow()
        #expect(throws: TunnelError(.settingsMissing, "the tunnel has no interface yet", fix: "apply settings first")) {
            _ = try flow.leaseDevice()
        }
        let memory = try MemoryTun()
        flow.attach(memory)
        let device = try flow.leaseDevice()
        #expect(throws: TunnelError.self) { _ = try flow.leaseDevice() }
        #expect(throws: TunnelError.self) { try flow.write(Self.batch()) }
        memory.inject(Self.packet(1))
        let batch = try Self.batch()
        #expect(try device.receive(into: batch) == 1)
        #expect(try device.send(batch).sent == 1)
        device.close()
        #expect(throws: TunnelIOError.self) { _ = try device.receive(into: batch) }
        #expect(try memory.currentLinkState().isUp)
        let next = try flow.leaseDevice()
        flow.close()
        #expect(throws: TunnelIOError.self) { _ = try next.receive(into: batch) }
    }

    @Test("A batch of any size is read into or refused, with an interface of any kind and without")
    func smallBatches() async throws {
        for flow in [
            PacketFlow(), PacketFlow(device: try MemoryTun()), PacketFlow(device: CountingTun(try MemoryTun())),
        ] {
            for bytes in [1, 1_500, 65_535, PacketBatch.minimumReadBytes / 2] {
                let small = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
                let error = await #expect(throws: TunnelError.self) { try await flow.read(into: small) }
                #expect(error?.code == .batchTooSmall)
                #expect(error?.description.contains("at least 131072 bytes; make it with PacketBatch()") == true)
            }
        }
    }

    @Test("An interface without push-back takes everything")
    func plainDevice() throws {
        let tun = try MemoryTun(queueCapacity: 1)
        let flow = PacketFlow(device: CountingTun(tun))
        let batch = try Self.batch((0..<3).map(Self.packet))
        #expect(try flow.write(batch) == 3)
        #expect(flow.droppedCount == 2)
        #expect(try flow.write(batch) == 0)
    }

    @Test("A link that is full of bytes is waited for like one that is full of packets")
    func fullOfBytes() async throws {
        let size = Self.packet(0).count
        let device = try MemoryTun(queueCapacity: 100, byteCapacity: size * 2 + size / 2)
        let flow = PacketFlow(device: device)
        let batch = try Self.batch((0..<4).map(Self.packet))
        #expect(try flow.write(batch) == 2)
        #expect(!device.hasRoom)
        let writing = Task { try await flow.writeAll(Self.batch([Self.packet(9)])) }
        await Task.yield()
        #expect(device.takeDelivered().count == 2)
        try await writing.value
        #expect(device.takeDelivered() == [Self.packet(9)])
    }
}

/// An interface that has counted something.
private final class CountingTun: ForwardingTun {
    static let counted: TunStatistics = {
        var counted = TunStatistics()
        (counted.malformedFrames, counted.refusedSuperframes) = (3, 1)
        return counted
    }()

    let device: any TunDevice

    init(_ device: any TunDevice) { self.device = device }

    func check() {}
    func makeQueue() throws(TunnelIOError) -> any TunDevice { try device.makeQueue() }
    var statistics: TunStatistics { Self.counted }
    var hasBufferedPackets: Bool { true }
}
