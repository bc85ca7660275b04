// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnel
@testable import TunnelIO

/// The tests use the descriptor as another program does: through a duplicate, one packet in each message.
@Suite("A leased descriptor", .timeLimit(.minutes(1)))
struct LeasedDescriptorTests {
    private let memory: MemoryTun
    private let flow: PacketFlow

    init() throws {
        memory = try MemoryTun()
        flow = PacketFlow(device: memory)
    }

    private static func program(on descriptor: LeasedDescriptor) throws -> PacketPort {
        try PacketPort(SocketTun(borrowing: descriptor.number, mtu: 1420))
    }

    private static func packet(_ number: Int) -> [UInt8] { PacketFlowTests.packet(number) }

    /// The code of the error that a waiting read gets.
    private static func end(of port: PacketPort) -> TunnelIOError.Code? {
        do throws(TunnelIOError) {
            while try port.receive(timeout: .seconds(50)) != nil {}
            return nil
        } catch {
            return error.code
        }
    }

    private static func isRemoved(_ port: PacketPort) -> Bool {
        if case .deviceRemoved? = end(of: port) { true } else { false }
    }

    @Test("Packets of a device without a descriptor pass through a socket pair in both directions, in order")
    func relay() async throws {
        let descriptor = try flow.leaseDescriptor()
        #expect(descriptor.format == .packets)
        let port = try Self.program(on: descriptor)
        var deliveries = memory.deliveries().makeAsyncIterator()
        for number in 0..<40 {
            #expect(memory.inject(Self.packet(number)))
            #expect(try port.receive(timeout: .seconds(50)) == Self.packet(number))
            #expect(try port.send(Self.packet(number + 1)))
            #expect(await deliveries.next() == Self.packet(number + 1))
        }
        for number in 0..<40 { #expect(memory.inject(Self.packet(number))) }
        for number in 0..<40 { #expect(try port.receive(timeout: .seconds(50)) == Self.packet(number)) }
        #expect(descriptor.droppedCount == 0)
        descriptor.close()
    }

    @Test("The flow belongs to the descriptor until it is closed, and can then be used again")
    func exclusive() async throws {
        let descriptor = try flow.leaseDescriptor()
        #expect(throws: TunnelError.self) { try flow.leaseDescriptor() }
        #expect(throws: TunnelError.self) { try flow.leaseDevice() }
        await #expect(throws: TunnelError.self) { try await flow.write(Self.packet(1)) }
        for _ in 0..<2 { descriptor.close() }
        memory.inject(Self.packet(2))
        let batch = try PacketBatch()
        #expect(try await flow.read(into: batch) == 1)
        let second = try flow.leaseDescriptor(.packets)
        let port = try Self.program(on: second)
        memory.inject(Self.packet(3))
        #expect(try port.receive(timeout: .seconds(50)) == Self.packet(3))
        second.close()
    }

    @Test("Closing the descriptor ends reads through its duplicates")
    func closing() throws {
        let descriptor = try flow.leaseDescriptor()
        let port = try Self.program(on: descriptor)
        descriptor.close()
        #expect(Self.isRemoved(port))
        #expect(try memory.currentLinkState().isUp)
    }

    @Test("The end of the tunnel ends reads, and the descriptor stays open until it is closed")
    func endOfTunnel() throws {
        let descriptor = try flow.leaseDescriptor()
        let port = try Self.program(on: descriptor)
        flow.close()
        #expect(Self.isRemoved(port))
        // A duplicate of it can still be made.
        #expect(Self.isRemoved(try Self.program(on: descriptor)))
        descriptor.close()
        #expect(throws: TunnelError.self) { try flow.leaseDescriptor() }
    }

    @Test("The removal of the interface ends reads")
    func removal() throws {
        let descriptor = try flow.leaseDescriptor()
        let port = try Self.program(on: descriptor)
        memory.removeDevice()
        #expect(Self.isRemoved(port))
        descriptor.close()
    }

    @Test("A device with a descriptor lends a duplicate of it, and stays open")
    func duplicate() throws {
        let relay = try DescriptorRelay(memory)
        defer { relay.close() }
        let socket = try SocketTun(borrowing: relay.descriptor.number, mtu: 1420)
        let flow = PacketFlow(device: socket)
        let descriptor = try flow.leaseDescriptor()
        #expect(descriptor.format == .packets && descriptor.droppedCount == 0)
        let port = try Self.program(on: descriptor)
        memory.inject(Self.packet(1))
        #expect(try port.receive(timeout: .seconds(50)) == Self.packet(1))
        descriptor.close()
        #expect(try socket.currentMTU() == 1420)
        // The program's own duplicate is not affected.
        memory.inject(Self.packet(2))
        #expect(try port.receive(timeout: .seconds(50)) == Self.packet(2))
    }

    @Test("A missing descriptor of the interface is an error, before settings as well, and the flow stays usable")
    func refused() async throws {
        let error = #expect(throws: TunnelError.self) { try flow.leaseDescriptor(.interface) }
        #expect(error?.code == .hostFailed)
        memory.inject(Self.packet(1))
        #expect(try await flow.read(into: PacketBatch()) == 1)
        let early = #expect(throws: TunnelError.self) { try PacketFlow().leaseDescriptor() }
        #expect(early?.code == .settingsMissing)
    }

    @Test("Packets beyond the queue are dropped and counted, and the relay continues")
    func overflow() throws {
        let descriptor = try flow.leaseDescriptor()
        let port = try Self.program(on: descriptor)
        // The program does not read until the socket's queue is full.
        let deadline = ContinuousClock.now + .seconds(50)
        while descriptor.droppedCount == 0, ContinuousClock.now < deadline { memory.inject(Self.packet(1)) }
        #expect(descriptor.droppedCount > 0)
        var isSeen = false
        while !isSeen, ContinuousClock.now < deadline {
            memory.inject(Self.packet(9))
            while let packet = try port.receive(timeout: .milliseconds(10)) {
                isSeen = isSeen || packet == Self.packet(9)
            }
        }
        #expect(isSeen)
        descriptor.close()
    }
}
