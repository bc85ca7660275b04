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

@Suite("MemoryTun")
struct MemoryTunTests {
    private let request = PacketBuilder.icmpEcho(
        from: .v4(10, 0, 0, 1), to: .v4(10, 0, 0, 2), identifier: 1, sequence: 1, payload: [1, 2, 3])

    @Test("Injected packets are received in order, apart from each other and aligned")
    func receive() throws {
        let tun = try MemoryTun()
        let packets = (0..<20).map { ipv4(length: 20 + $0 * 7) }
        for packet in packets { #expect(tun.inject(packet)) }
        let batch = try makeBatch()
        #expect(try tun.receive(into: batch) == 20)
        #expect((0..<20).map { batch.copy(of: $0) } == packets)
        var end = 0
        for index in 0..<batch.count {
            #expect(batch[index].offset % 16 == 0)
            #expect(Int(batch[index].offset) >= end + 32)
            end = Int(batch[index].offset + batch[index].length) + 32
        }
        #expect(try tun.receive(into: batch) == 0)
    }

    @Test("The descriptor is readable exactly while packets wait")
    func readiness() throws {
        let tun = try MemoryTun()
        #expect(!isReadable(tun.readiness))
        tun.inject(request)
        tun.inject(request)
        #expect(isReadable(tun.readiness))
        let small = try PacketBatch(packetCapacity: 1)
        #expect(try tun.receive(into: small) == 1)
        #expect(isReadable(tun.readiness))
        small.removeAll()
        #expect(try tun.receive(into: small) == 1)
        #expect(!isReadable(tun.readiness))
        tun.inject(request)
        #expect(isReadable(tun.readiness))
    }

    @Test("A batch with no room for the next packet leaves it for the next call")
    func roomInBatch() throws {
        let tun = try MemoryTun(mtu: 65_535)
        for _ in 0..<3 { tun.inject(ipv4(length: 65_535)) }
        let batch = try PacketBatch(packetCapacity: 8, byteCapacity: PacketBatch.minimumReadBytes)
        for _ in 0..<3 {
            batch.removeAll()
            #expect(try tun.receive(into: batch) == 1)
        }
        #expect(try tun.receive(into: batch) == 0)
    }

    @Test("A batch that is too small to read into is refused, and the packet stays", arguments: SmallBatch.sizes)
    func smallBatch(_ bytes: Int) throws {
        let tun = try MemoryTun()
        tun.inject(request)
        try SmallBatch.expectRefused(by: tun, bytes)
        let batch = try makeBatch()
        #expect(try tun.receive(into: batch) == 1)
        let port = try PacketPort(tun)
        tun.inject(request)
        let small = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
        #expect(throws: TunnelIOError.self) { try port.receive(into: small) }
        #expect(try port.receiveNow() == request)
    }

    @Test("Sent packets are delivered, and an invalid IP packet is dropped")
    func send() throws {
        let tun = try MemoryTun()
        let batch = try makeBatch([request, [0xff, 0], [], ipv4(length: 20)])
        #expect(try tun.send(batch) == TunSendResult(sent: 2, dropped: 1))
        #expect(tun.takeDelivered() == [request, ipv4(length: 20)])
        #expect(tun.takeDelivered() == [])
    }

    @Test("Full queues drop the newest and count it")
    func bounds() throws {
        let tun = try MemoryTun(queueCapacity: 2)
        #expect(tun.inject(ipv4(length: 20)))
        #expect(tun.inject(ipv4(length: 21)))
        #expect(!tun.inject(ipv4(length: 22)))
        #expect(tun.injectionsDropped == 1)
        let batch = try makeBatch((20..<25).map { ipv4(length: $0) })
        #expect(try tun.send(batch) == TunSendResult(sent: 2, dropped: 3))
        #expect(tun.deliveriesDropped == 3)
        #expect(tun.takeDelivered().map(\.count) == [20, 21])
        batch.removeAll()
        #expect(try tun.receive(into: batch) == 2)
        #expect(tun.inject(batch) == 2)
    }

    @Test("A device that is down takes nothing in either direction")
    func down() throws {
        let tun = try MemoryTun()
        try tun.setUp(false)
        #expect(!tun.inject(request))
        #expect(try tun.send(makeBatch([request])) == TunSendResult(sent: 0, dropped: 1))
        #expect(try tun.currentLinkState() == LinkState(isUp: false, mtu: 1420))
        try tun.setUp(true)
        #expect(tun.inject(request))
    }

    @Test("Nothing longer than the MTU is routed to the device")
    func mtu() throws {
        let tun = try MemoryTun(mtu: 1280)
        #expect(tun.inject(ipv4(length: 1280)))
        #expect(!tun.inject(ipv4(length: 1281)))
        try tun.setMTU(1500)
        #expect(try tun.currentMTU() == 1500)
        #expect(tun.inject(ipv4(length: 1500)))
        #expect(throws: TunnelIOError.self) { try tun.setMTU(67) }
        #expect(throws: TunnelIOError.self) { try tun.setMTU(65_536) }
    }

    @Test("Changes are reported once each, in order, through the descriptor")
    func events() throws {
        let tun = try MemoryTun()
        let link = try #require(tun.linkReadiness)
        #expect(!isReadable(link))
        try tun.setUp(true)
        #expect(!isReadable(link), "it was up already")
        try tun.setUp(false)
        try tun.setMTU(1300)
        try tun.setUp(true)
        #expect(isReadable(link))
        #expect(tun.drainLinkEvents() == [.down, .mtu(1300), .up])
        #expect(!isReadable(link))
        #expect(tun.drainLinkEvents() == [])
    }

    @Test("Every call of a removed device fails permanently")
    func removal() throws {
        let tun = try MemoryTun(name: "gone0")
        tun.inject(request)
        tun.removeDevice()
        tun.removeDevice()
        #expect(isReadable(tun.readiness))
        #expect(tun.drainLinkEvents() == [.removed])
        let error = TunnelIOError(.deviceRemoved(name: "gone0"))
        #expect(throws: error) { try tun.receive(into: makeBatch()) }
        #expect(throws: error) { try tun.send(makeBatch([request])) }
        #expect(throws: error) { try tun.currentName() }
        #expect(throws: error) { try tun.currentMTU() }
        #expect(!tun.inject(request))
        #expect(isReadable(tun.readiness))
    }

    @Test("Every call of a closed device fails, and closing it again is safe")
    func closing() throws {
        let tun = try MemoryTun(name: "mem7")
        #expect(try tun.currentName() == "mem7")
        tun.close()
        tun.close()
        #expect(throws: TunnelIOError(.closed)) { try tun.receive(into: makeBatch()) }
        #expect(throws: TunnelIOError(.closed)) { try tun.send(makeBatch([request])) }
        #expect(throws: TunnelIOError(.closed)) { try tun.currentName() }
        #expect(isReadable(tun.readiness))
        #expect(!tun.inject(request))
    }

    @Test("A responder's response is a packet to receive")
    func responder() throws {
        let tun = try MemoryTun()
        unsafe tun.responder = { unsafe ICMPResponder().reply(to: $0) }
        #expect(try tun.send(makeBatch([request, ipv4(length: 20)])) == TunSendResult(sent: 2, dropped: 0))
        let batch = try makeBatch()
        #expect(try tun.receive(into: batch) == 1)
        #expect(
            batch.copy(of: 0)
                == PacketBuilder.icmpEcho(
                    from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 1), identifier: 1, sequence: 1, payload: [1, 2, 3],
                    isReply: true))
        #expect(tun.takeDelivered() == [])
    }

    @Test("A delivery handler receives sent packets")
    func handler() throws {
        let tun = try MemoryTun()
        let box = Box()
        unsafe tun.onDeliver = { packet in
            let bytes = unsafe Array(packet)
            box.mutex.withLock { $0.append(bytes) }
        }
        _ = try tun.send(makeBatch([request]))
        #expect(box.mutex.withLock { $0 } == [request])
        unsafe tun.onDeliver = nil
        _ = try tun.send(makeBatch([request]))
        #expect(tun.takeDelivered() == [request])
    }

    @Test("Packets sent to one of two connected devices are received by the other")
    func connected() throws {
        let (one, two) = (try MemoryTun(), try MemoryTun())
        MemoryTun.connect(one, two)
        #expect(try one.send(makeBatch([request])) == TunSendResult(sent: 1, dropped: 0))
        let batch = try makeBatch()
        #expect(try one.receive(into: batch) == 0)
        #expect(try two.receive(into: batch) == 1)
        #expect(batch.copy(of: 0) == request)
        try one.setUp(false)
        #expect(try two.send(makeBatch([request])) == TunSendResult(sent: 0, dropped: 1))
    }

    @Test("Two connected devices may send at each other from two threads")
    func connectedThreads() async throws {
        let (one, two) = (try MemoryTun(queueCapacity: 5000), try MemoryTun(queueCapacity: 5000))
        MemoryTun.connect(one, two)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for tun in [one, two] {
                group.addTask {
                    let batch = try PacketBatch(packetCapacity: 8, byteCapacity: 4096)
                    for _ in 0..<8 { batch.append(copying: request) }
                    for _ in 0..<500 {
                        let result = try tun.send(batch)
                        #expect(result.sent == 8)
                    }
                }
            }
            try await group.waitForAll()
        }
        let batch = try PacketBatch(packetCapacity: 5000, byteCapacity: 1 << 20)
        for tun in [one, two] {
            batch.removeAll()
            #expect(try tun.receive(into: batch) == 4000)
        }
    }

    @Test("A full queue leaves the packets with a sender that waits, and reports room when packets are taken")
    func room() throws {
        let tun = try MemoryTun(queueCapacity: 2)
        let rooms = Counter()
        tun.setRoomHandler { rooms.count.add(1, ordering: .relaxed) }
        let batch = try makeBatch((20..<25).map { ipv4(length: $0) })
        #expect(tun.hasRoom)
        #expect(try tun.sendUntilFull(batch) == TunSendResult(sent: 2, dropped: 0))
        #expect(!tun.hasRoom)
        #expect((0..<5).map { batch[$0].length > 0 } == [false, false, true, true, true])
        #expect(tun.deliveriesDropped == 0)
        #expect(tun.takeDelivered(atMost: 1).map(\.count) == [20])
        #expect(rooms.count.load(ordering: .relaxed) == 1)
        #expect(tun.hasRoom)
        #expect(try tun.sendUntilFull(batch) == TunSendResult(sent: 1, dropped: 0))
        #expect(tun.takeDelivered().map(\.count) == [21, 22])
        #expect(rooms.count.load(ordering: .relaxed) == 2)
        #expect(try tun.sendUntilFull(makeBatch([ipv4(length: 1421), [0xff]])) == TunSendResult(sent: 0, dropped: 2))
    }

    @Test("A connected device that is full reports room to its sender when it is read, closed or removed")
    func connectedRoom() throws {
        for end in 0..<3 {
            let (one, two) = (try MemoryTun(), try MemoryTun(queueCapacity: 1))
            MemoryTun.connect(one, two)
            let rooms = Counter()
            one.setRoomHandler { rooms.count.add(1, ordering: .relaxed) }
            let batch = try makeBatch([request, request])
            #expect(try one.sendUntilFull(batch) == TunSendResult(sent: 1, dropped: 0))
            #expect(!one.hasRoom)
            #expect(try one.sendUntilFull(batch) == TunSendResult(sent: 0, dropped: 0))
            switch end {
            case 0: #expect(try two.receive(into: makeBatch()) == 1)
            case 1: two.close()
            default: two.removeDevice()
            }
            #expect(rooms.count.load(ordering: .relaxed) == 1)
            #expect(one.hasRoom)
            #expect(try one.sendUntilFull(batch) == TunSendResult(sent: end == 0 ? 1 : 0, dropped: end == 0 ? 0 : 1))
            withExtendedLifetime(two) {}
        }
    }

    @Test(
        "A writer that is about to wait for room gets the error of a device that is removed or closed",
        .timeLimit(.minutes(1)), arguments: [true, false], [true, false])
    func endWhileFull(isConnected: Bool, isClosed: Bool) async throws {
        let (one, two) = (try MemoryTun(queueCapacity: 1), try MemoryTun(queueCapacity: 1))
        if isConnected { MemoryTun.connect(one, two) }
        let waiters = Waiters<TunnelIOError> { $0 }
        one.setRoomHandler { waiters.wakeAll() }
        let batch = try makeBatch([request, request])
        let error = await #expect(throws: TunnelIOError.self) {
            try await waiters.next(isReader: false, unless: { one.hasRoom }) { () throws(TunnelIOError) -> Void? in
                _ = try one.sendUntilFull(batch)
                // No task waits yet, so that the report of room wakes none.
                if isClosed { one.close() } else { one.removeDevice() }
                return nil
            }
        }
        #expect(error == TunnelIOError(isClosed ? .closed : .deviceRemoved(name: "memory")))
        withExtendedLifetime(two) {}
    }

    @Test(
        "A full device that goes down, or whose MTU sinks, reports room, as packets are dropped then",
        arguments: [true, false], [true, false])
    func changeWhileFull(isConnected: Bool, goesDown: Bool) throws {
        let (one, two) = (try MemoryTun(queueCapacity: 1), try MemoryTun(queueCapacity: 1))
        if isConnected { MemoryTun.connect(one, two) }
        let rooms = Counter()
        one.setRoomHandler { rooms.count.add(1, ordering: .relaxed) }
        let batch = try makeBatch([ipv4(length: 100), ipv4(length: 100)])
        #expect(try one.sendUntilFull(batch) == TunSendResult(sent: 1, dropped: 0))
        #expect(!one.hasRoom)
        let full = isConnected ? two : one
        if goesDown { try full.setUp(false) } else { try full.setMTU(68) }
        #expect(rooms.count.load(ordering: .relaxed) == 1)
        #expect(one.hasRoom)
        #expect(try one.sendUntilFull(batch) == TunSendResult(sent: 0, dropped: 1))
        withExtendedLifetime(two) {}
    }

    @Test("An object that a room handler captured may use the device when it is released")
    func replacedRoomHandler() throws {
        let tun = try MemoryTun()
        let rooms = Counter()
        do {
            let last = LastWords {
                if tun.hasRoom { rooms.count.add(1, ordering: .relaxed) }
            }
            tun.setRoomHandler { withExtendedLifetime(last) {} }
        }
        #expect(rooms.count.load(ordering: .relaxed) == 0)
        tun.setRoomHandler {}
        #expect(rooms.count.load(ordering: .relaxed) == 1)
    }

    @Test("A packet that no queue can ever hold is dropped, and its sender does not wait")
    func neverRoom() throws {
        let tun = try MemoryTun(mtu: 1420, byteCapacity: 1000)
        #expect(try tun.sendUntilFull(makeBatch([ipv4(length: 1001)])) == TunSendResult(sent: 0, dropped: 1))
        #expect(tun.hasRoom)
        #expect(try tun.sendUntilFull(makeBatch([ipv4(length: 1000)])) == TunSendResult(sent: 1, dropped: 0))
    }

    @Test("Deliveries are a sequence, which ends with the device, or when something else takes them")
    func deliveries() async throws {
        let tun = try MemoryTun()
        let replaced = tun.deliveries()
        var deliveries = tun.deliveries().makeAsyncIterator()
        for await _ in replaced { Issue.record("another one has taken its place") }
        let batch = try makeBatch([ipv4(length: 30), ipv4(length: 40)])
        #expect(try tun.send(batch).sent == 2)
        #expect(await deliveries.next() == ipv4(length: 30))
        #expect(await deliveries.next() == ipv4(length: 40))
        tun.close()
        #expect(await deliveries.next() == nil)
    }

    private final class Counter: Sendable {
        let count = Atomic<Int>(0)
    }

    private final class Box: Sendable {
        let mutex = Mutex<[[UInt8]]>([])
    }

    private func ipv4(length: Int) -> [UInt8] {
        PacketBuilder.ipPacket(
            from: .v4(10, 0, 0, 1), to: .v4(10, 0, 0, 2), number: 253,
            payload: [UInt8](repeating: UInt8(length & 0xff), count: length - 20))
    }

    private func makeBatch(_ packets: [[UInt8]] = []) throws -> PacketBatch {
        let batch = try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18)
        for packet in packets { batch.append(copying: packet) }
        return batch
    }

    private func isReadable(_ descriptor: Int32) -> Bool {
        var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&item, 1, 0) == 1
    }
}
