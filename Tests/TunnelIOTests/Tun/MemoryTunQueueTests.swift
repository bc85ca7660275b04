// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing

@testable import TunnelIO

@Suite("MemoryTun queues")
struct MemoryTunQueueTests {
    @Test("Each flow comes from one queue in order, and many flows use every queue", arguments: [2, 3, 8])
    func spread(_ count: Int) throws {
        let first = try MemoryTun(queueCapacity: 4096)
        let queues = try [first] + (1..<count).map { _ in try first.cloneQueue() }
        for round in 0..<10 {
            for flow in 0..<64 {
                #expect(queues[round % count].inject(packet(flow: flow, number: round, isIPv6: flow % 2 == 1)))
            }
        }
        var places: [[UInt8]: Set<Int>] = [:]
        var numbers: [[UInt8]: [UInt8]] = [:]
        for (index, queue) in queues.enumerated() {
            let packets = try receive(queue)
            #expect(!packets.isEmpty)
            for bytes in packets {
                let flow = Array(bytes.dropLast())
                places[flow, default: []].insert(index)
                numbers[flow, default: []].append(bytes.last ?? 0xff)
            }
        }
        #expect(places.count == 64)
        #expect(places.values.allSatisfy { $0.count == 1 })
        #expect(numbers.values.allSatisfy { $0 == Array(0..<10) })
    }

    @Test("Packets sent to any queue reach the same other side")
    func send() throws {
        let first = try MemoryTun()
        let second: any TunDevice = try first.makeQueue()
        for (index, queue) in [first, second].enumerated() {
            let batch = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
            batch.append(copying: packet(flow: index, number: 0))
            #expect(try queue.send(batch) == TunSendResult(sent: 1, dropped: 0))
        }
        #expect(first.takeDelivered() == [packet(flow: 0, number: 0), packet(flow: 1, number: 0)])
    }

    @Test("The interface is removed when its last queue is closed, and not before")
    func lifetime() throws {
        let first = try MemoryTun(name: "mem0")
        let second = try first.cloneQueue()
        first.close()
        #expect(throws: TunnelIOError(.closed)) { try first.currentName() }
        #expect(throws: TunnelIOError(.closed)) { _ = try first.cloneQueue() }
        #expect(try second.currentName() == "mem0")
        for flow in 0..<8 { #expect(first.inject(packet(flow: flow, number: 0))) }
        #expect(try receive(second).count == 8)
        second.close()
        #expect(!second.inject(packet(flow: 0, number: 0)))
    }

    @Test("A queue that is released is closed")
    func dropped() throws {
        let first = try MemoryTun()
        _ = try first.cloneQueue()
        for flow in 0..<8 { first.inject(packet(flow: flow, number: 0)) }
        #expect(try receive(first).count == 8)
    }

    @Test("Each queue receives changes and the removal")
    func events() throws {
        let first = try MemoryTun(name: "mem0")
        let second = try first.cloneQueue()
        try second.setUp(false)
        try first.setMTU(1300)
        #expect(first.drainLinkEvents() == [.down, .mtu(1300)])
        #expect(second.drainLinkEvents() == [.down, .mtu(1300)])
        #expect(try second.currentLinkState() == LinkState(isUp: false, mtu: 1300))
        first.removeDevice()
        #expect(second.drainLinkEvents() == [.removed])
        #expect(throws: TunnelIOError(.deviceRemoved(name: "mem0"))) { _ = try second.cloneQueue() }
    }

    @Test("Handlers are released outside the lock, so that their captured objects may use the device in deinit")
    func handlersGo() throws {
        final class Witness: Sendable {
            let tun: MemoryTun
            let wasUp: Mutex<[Bool]>
            init(_ tun: MemoryTun, _ box: Box) {
                self.tun = tun
                wasUp = Mutex([])
                self.box = box
            }
            let box: Box
            deinit { box.count.withLock { $0 += tun.takeDelivered().count + 1 } }
        }
        final class Box: Sendable {
            let count = Mutex(0)
        }
        let (tun, box) = (try MemoryTun(), Box())
        var witness: Witness? = Witness(tun, box)
        unsafe tun.onDeliver = { [witness] _ in withExtendedLifetime(witness) {} }
        witness = nil
        unsafe tun.onDeliver = nil
        #expect(box.count.withLock { $0 } == 1)
        witness = Witness(tun, box)
        unsafe tun.responder = { [witness] _ in withExtendedLifetime(witness) { nil } }
        witness = nil
        tun.close()
        #expect(box.count.withLock { $0 } == 2)
    }

    @Test("A flow is its addresses, protocol and ports, and of fragments the addresses alone")
    func hash() {
        func hash(_ bytes: [UInt8]) -> Int { unsafe bytes.withUnsafeBytes { unsafe FlowHash.of($0) } }
        #expect(hash(packet(flow: 1, number: 1)) == hash(packet(flow: 1, number: 2)))
        #expect(hash(packet(flow: 1, number: 1)) != hash(packet(flow: 2, number: 1)))
        var fragments = [packet(flow: 1, number: 1), packet(flow: 2, number: 1)]
        for index in fragments.indices { fragments[index][6] = 0x20 }
        #expect(hash(fragments[0]) == hash(fragments[1]))
        for isIPv6 in [false, true] {
            let bytes = packet(flow: 3, number: 1, isIPv6: isIPv6)
            for length in bytes.indices { #expect(hash(Array(bytes[..<length])) >= 0) }
        }
        #expect(hash([0x4f] + [UInt8](repeating: 17, count: 19)) >= 0)
    }

    private func packet(flow: Int, number: Int, isIPv6: Bool = false) -> [UInt8] {
        let (source, target): (IPAddress, IPAddress) =
            isIPv6 ? (.v6(1, 2), .v6(3, 4)) : (.v4(10, 0, 0, 1), .v4(10, 0, 0, 2))
        var bytes = PacketBuilder.udp(
            from: source, port: UInt16(1000 + flow), to: target, port: 53, payload: [UInt8(number)])
        // The checksum is of no interest here, and would tell the packets of one flow apart.
        let field = isIPv6 ? 46 : 26
        bytes.replaceSubrange(field..<field + 2, with: [0, 0])
        return bytes
    }

    private func receive(_ tun: MemoryTun) throws -> [[UInt8]] {
        let batch = try PacketBatch(packetCapacity: 4096, byteCapacity: 1 << 20)
        _ = try tun.receive(into: batch)
        return (0..<batch.count).map { batch.copy(of: $0) }
    }
}
