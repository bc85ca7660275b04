// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("The packet flow as an interface", .timeLimit(.minutes(5)))
struct PacketFlowTunTests {
    private let flow = NEPacketTunnelFlow()
    private let reader: PacketFlowReader
    private let tun: PacketFlowTun
    private let changes = Changes()

    init() throws {
        reader = PacketFlowReader(flow)
        tun = try PacketFlowTun(reader, name: "utun7", mtu: 1420, packetCapacity: 8, byteCapacity: 1 << 16)
        flow.standIn.setChangeHandler { [changes] in changes.notify() }
        tun.start()
    }

    private func batch(_ packets: [[UInt8]] = [], capacity: Int = 64) throws -> PacketBatch {
        let batch = try PacketBatch(packetCapacity: capacity, byteCapacity: 1 << 17)
        for packet in packets { batch.append(copying: packet) }
        return batch
    }

    /// Receives until there are as many packets.
    private func receive(_ count: Int, from tun: PacketFlowTun? = nil) async throws -> [[UInt8]] {
        let (tun, batch) = (tun ?? self.tun, try batch())
        let all = try await changes.wait {
            _ = try tun.receive(into: batch)
            return batch.count >= count
        }
        #expect(all)
        return (0..<batch.count).map(batch.copy(of:))
    }

    @Test("Packets of both families arrive unchanged")
    func receives() async throws {
        let packets = [Samples.packet(1), Samples.packet6(2), Samples.packet(3, size: 1_300)]
        flow.standIn.route(packets.map { Data($0) })
        #expect(try await receive(3) == packets)
    }

    @Test("Packets are sent with their families, empty ones are not sent, and malformed ones are dropped")
    func sends() throws {
        let batch = try batch([Samples.packet(1), [0x12, 0x34], Samples.packet6(2)])
        let gone = try #require(batch.append(copying: Samples.packet(4)))
        batch[gone].length = 0
        #expect(try tun.send(batch) == TunSendResult(sent: 2, dropped: 1))
        #expect(flow.standIn.takeWritten() == [Data(Samples.packet(1)), Data(Samples.packet6(2))])
        #expect(flow.standIn.families == [2, 30])
    }

    @Test("No packets are requested while some wait, so that the system's queue applies back-pressure")
    func backPressure() async throws {
        flow.standIn.setLargestBatch(4)
        flow.standIn.route((0..<20).map { Data(Samples.packet($0)) })
        #expect(await changes.wait { flow.standIn.waitingCount == 16 })
        #expect(!flow.standIn.isReading)
        let one = try batch(capacity: 1)
        #expect(await changes.wait { (try? tun.receive(into: one)) == 1 })
        #expect(flow.standIn.waitingCount == 16)
        #expect(flow.standIn.readCount == 1)
        // The rest, in order.
        #expect(try await receive(19) == (1..<20).map { Samples.packet($0) })
        #expect(await changes.wait { flow.standIn.isReading })
        #expect(tun.overflowCount == 0)
    }

    @Test("A read of 2,000 packets is passed on in pieces: all of them, in order")
    func longRead() async throws {
        flow.standIn.setCapacity(2_000)
        flow.standIn.setLargestBatch(2_000)
        let packets = (0..<2_000).map { Samples.packet($0) }
        flow.standIn.route(packets.map { Data($0) })
        var received: [[UInt8]] = []
        let piece = try batch()
        let all = try await changes.wait {
            while true {
                piece.removeAll()
                let count = try tun.receive(into: piece)
                guard count > 0 else { return received.count >= packets.count }
                #expect(count <= 8)
                received += (0..<count).map(piece.copy(of:))
            }
        }
        #expect(all && received == packets)
        #expect(await changes.wait { flow.standIn.isReading })
        #expect(flow.standIn.readCount == 2 && tun.overflowCount == 0)
        // Bytes count as well.
        flow.standIn.route((0..<3).map { Data(Samples.packet($0, size: 30_000)) })
        piece.removeAll()
        #expect(try await changes.wait { try tun.receive(into: piece) == 2 })
        piece.removeAll()
        #expect(try tun.receive(into: piece) == 1)
    }

    @Test("Malformed packets are counted and skipped")
    func malformed() async throws {
        flow.standIn.route([Data([0x00]), Data(), Data(Samples.packet(1))])
        #expect(try await receive(1) == [Samples.packet(1)])
        #expect(tun.statistics.malformedFrames == 2)
    }

    @Test("A packet that no batch can hold is dropped")
    func tooLong() async throws {
        let tun = try PacketFlowTun(reader, name: "utun7", mtu: 1420, packetCapacity: 8, byteCapacity: 1 << 17)
        self.tun.close()
        tun.start()
        flow.standIn.route([Data(Samples.packet(1)) + Data(count: PacketBatch.longestPacket), Data(Samples.packet(2))])
        #expect(try await receive(1, from: tun) == [Samples.packet(2)])
        #expect(tun.overflowCount == 1)
    }

    @Test("A batch that is too small to read into is refused, as by every device, and nothing is lost")
    func smallBatch() async throws {
        flow.standIn.route([Data(Samples.packet(1))])
        for bytes in [1, 4_096, PacketBatch.minimumReadBytes / 2] {
            let small = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
            #expect(throws: TunnelIOError.self) { try tun.receive(into: small) }
            #expect(small.isEmpty)
        }
        #expect(try await receive(1) == [Samples.packet(1)])
    }

    @Test("Packets for an abandoned read go to the next reader")
    func successor() async throws {
        tun.close()
        let next = try PacketFlowTun(reader, name: "utun7", mtu: 1420, packetCapacity: 8, byteCapacity: 1 << 16)
        next.start()
        flow.standIn.route([Data(Samples.packet(6))])
        #expect(try await receive(1, from: next) == [Samples.packet(6)])
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("A closed tunnel neither returns nor accepts packets, and drops later ones")
    func closing() async throws {
        tun.close()
        #expect(throws: TunnelIOError(.closed)) { try tun.receive(into: batch()) }
        #expect(throws: TunnelIOError(.closed)) { try tun.send(batch([Samples.packet(1)])) }
        #expect(throws: TunnelIOError(.closed)) { try tun.currentMTU() }
        flow.standIn.route([Data(Samples.packet(1))])
        #expect(await changes.wait { flow.standIn.waitingCount == 0 })
        #expect(!flow.standIn.isReading)
    }

    @Test("Writes that the system refuses are counted, and logged at a bounded rate")
    func refusal() throws {
        let lines = Mutex<[String]>([])
        let tun = try PacketFlowTun(
            reader, name: "utun7", mtu: 1420, packetCapacity: 8, byteCapacity: 1 << 16,
            report: { line in lines.withLock { $0.append(line) } })
        flow.standIn.fail()
        for _ in 0..<100 {
            #expect(
                try tun.send(batch([Samples.packet(1), Samples.packet(2)])) == TunSendResult(sent: 0, dropped: 2))
        }
        #expect(tun.refusedWriteCount == 200)
        // A minute may end between two writes.
        #expect((3...7).contains(lines.withLock { $0.count }))
        #expect(lines.withLock { $0.first }?.contains("refused 2 packets") == true)
    }

    @Test("Another MTU is a change of the link")
    func mtu() throws {
        tun.setMTU(1420)
        #expect(tun.drainLinkEvents().isEmpty)
        tun.setMTU(1280)
        #expect(tun.drainLinkEvents() == [.mtu(1280)])
        #expect(try tun.currentLinkState() == LinkState(isUp: true, mtu: 1280))
        #expect(try tun.currentName() == "utun7")
    }

    @Test("Each callback and each call of the system has an autorelease pool, closed again")
    func pools() async throws {
        let before = StandInPools.openedCount
        flow.standIn.route([Data(Samples.packet(1))])
        _ = try await receive(1)
        #expect(StandInPools.openedCount > before)
        let middle = StandInPools.openedCount
        _ = try tun.send(batch((0..<64).map { Samples.packet($0) }))
        #expect(StandInPools.openedCount > middle)
    }
}
