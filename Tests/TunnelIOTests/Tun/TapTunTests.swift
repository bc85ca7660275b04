// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

@Suite("TapTun")
struct TapTunTests {
    private static let ping = PacketBuilder.icmpEcho(
        from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 1), identifier: 1, sequence: 1, isReply: true)

    private static func datagram(from port: UInt16) -> [UInt8] {
        PacketBuilder.udp(from: .v4(10, 0, 0, 2), port: port, to: .v4(10, 0, 0, 1), port: 9, payload: [1])
    }

    private static func batch(_ packets: [[UInt8]] = []) throws -> PacketBatch {
        let batch = try PacketBatch()
        for packet in packets { batch.append(copying: packet) }
        return batch
    }

    @Test("Closing a lease leaves the device open, and closing a device without one closes it")
    func lease() throws {
        let memory = try MemoryTun()
        let leased = TapTun(memory, lease: true)
        #expect(!leased.isEnded)
        leased.close()
        #expect(leased.isEnded)
        #expect(throws: TunnelIOError(.closed)) { try leased.send(Self.batch([Self.ping])) }
        #expect(throws: TunnelIOError(.closed)) { try leased.receive(into: Self.batch()) }
        #expect(throws: TunnelIOError(.closed)) { _ = try leased.makeQueue() }
        #expect(memory.takeDelivered() == [])
        let plain = TapTun(memory)
        #expect(try plain.send(Self.batch([Self.ping])).sent == 1)
        plain.close()
        #expect(throws: TunnelIOError(.closed)) { _ = try memory.currentName() }
    }

    @Test("A filter on a leased device takes the lease over, so that packets pass one device only")
    func takeover() throws {
        let memory = try MemoryTun()
        let leased = TapTun(memory, lease: true)
        let tap = TapTun(leased, filter: true)
        #expect(tap.device === memory)
        let queue = try tap.makeQueue()
        tap.setFilter { _ in true }
        #expect(try tap.send(Self.batch([Self.ping])).sent == 0)
        #expect(try queue.send(Self.batch([Self.ping])).sent == 0)
        tap.close()
        #expect(leased.isEnded)
        #expect(throws: TunnelIOError(.closed)) { try tap.send(Self.batch([Self.ping])) }
        #expect(try queue.send(Self.batch([Self.datagram(from: 9)])).sent == 1)
        queue.close()
        #expect(try memory.currentLinkState().isUp)
    }

    @Test("An object that a filter captured may set another filter when it is released")
    func replacedFilter() throws {
        let tap = TapTun(try MemoryTun(), filter: true)
        do {
            let last = LastWords { tap.setFilter { _ in true } }
            tap.setFilter { _ in
                withExtendedLifetime(last) {}
                return false
            }
        }
        #expect(try tap.send(Self.batch([Self.ping])).sent == 1)
        tap.setFilter(nil)
        #expect(try tap.send(Self.batch([Self.ping])).sent == 0)
    }

    @Test("The filter receives ICMP messages and datagrams from port 53, and removes those that it accepts")
    func filter() throws {
        let memory = try MemoryTun()
        let tap = TapTun(memory, filter: true)
        let (answer, other) = (Self.datagram(from: 53), Self.datagram(from: 54))
        tap.setFilter { packet in
            #expect(packet != other)
            return packet == answer
        }
        let batch = try Self.batch([Self.ping, answer, other])
        #expect(try tap.send(batch).sent == 2)
        #expect(memory.takeDelivered() == [Self.ping, other])
        tap.setFilter(nil)
        #expect(try tap.send(Self.batch([answer])).sent == 1)
    }

    @Test("A packet that is cut at any length passes the filter")
    func cut() throws {
        let tap = TapTun(try MemoryTun(), filter: true)
        tap.setFilter { _ in true }
        for packet in [Self.ping, Self.datagram(from: 53)] {
            for count in 1..<packet.count {
                #expect(try tap.send(Self.batch([Array(packet[..<count])])).sent == 1)
            }
            #expect(try tap.send(Self.batch([packet])).sent == 0)
        }
    }

    @Test("Whether a packet was delivered is remembered until it is forgotten, for all queues")
    func delivered() throws {
        let tap = TapTun(try MemoryTun(), filter: true)
        let queue = try tap.makeQueue()
        _ = try tap.send(Self.batch())
        #expect(!tap.hasDelivered)
        _ = try queue.send(Self.batch([Self.ping]))
        #expect(tap.hasDelivered)
        tap.forgetPackets()
        #expect(!tap.hasDelivered)
    }

    @Test("The next packet is reported once, in either direction")
    func nextPacket() throws {
        let memory = try MemoryTun()
        let tap = TapTun(memory, filter: true)
        let reports = Mutex(0)
        let batch = try Self.batch()
        func send() throws -> Int {
            #expect(memory.inject(Self.ping))
            batch.removeAll()
            return try tap.receive(into: batch)
        }
        #expect(try send() == 1)
        tap.onNextPacket { reports.withLock { $0 += 1 } }
        batch.removeAll()
        _ = try? tap.receive(into: batch)
        #expect(reports.withLock { $0 } == 0)
        for _ in 0..<2 { #expect(try send() == 1) }
        #expect(reports.withLock { $0 } == 1)
        tap.onNextPacket { reports.withLock { $0 += 1 } }
        tap.onNextPacket(nil)
        #expect(try send() == 1)
        #expect(reports.withLock { $0 } == 1)
        tap.onNextPacket { reports.withLock { $0 += 1 } }
        for _ in 0..<2 { #expect(try tap.send(Self.batch([Self.ping])).sent == 1) }
        #expect(reports.withLock { $0 } == 2)
    }
}
