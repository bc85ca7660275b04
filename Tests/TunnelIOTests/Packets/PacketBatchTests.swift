// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("PacketBatch")
struct PacketBatchTests {
    @Test("Copies are appended one behind the other, each with its endpoint")
    func copies() throws {
        let batch = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
        #expect(batch.isEmpty)
        #expect(batch.append(copying: [1, 2, 3], endpoint: .loopback(port: 7)) == 0)
        #expect(batch.append(copying: [4]) == 1)
        #expect(batch.append(copying: []) == 2)
        #expect(batch.count == 3)
        #expect(batch.tail == 4)
        #expect(batch[0] == PacketDescriptor(offset: 0, length: 3))
        #expect(batch[1] == PacketDescriptor(offset: 3, length: 1))
        #expect(batch[2] == PacketDescriptor(offset: 4, length: 0))
        #expect(batch.copy(of: 0) == [1, 2, 3])
        #expect(batch.copy(of: 1) == [4])
        #expect(batch.copy(of: 2) == [])
        #expect(batch[endpoint: 0].hasSameEnds(as: .loopback(port: 7)))
        #expect(batch[endpoint: 1].hasSameEnds(as: .unspecified))
        batch[endpoint: 1] = .loopback(port: 8)
        #expect(batch[endpoint: 1].port == 8)
    }

    @Test("The region is rounded up to whole pages, starts on one and is zero")
    func region() throws {
        let batch = try PacketBatch(packetCapacity: 1, byteCapacity: 5000)
        #expect(batch.byteCapacity == 8192 || batch.byteCapacity == 16_384)
        #expect(unsafe UInt(bitPattern: batch.base) % 4096 == 0)
        #expect(unsafe batch.freeBytes.count == batch.byteCapacity)
        #expect(unsafe batch.freeBytes.allSatisfy { $0 == 0 })
    }

    @Test(
        "A batch of no size is refused, and so is one that descriptors cannot tell of",
        arguments: [(0, 1), (1, 0), (-1, 4096), (1, -1), (.max, 4096), (1, .max), (1, 1 << 30 + 1), (1 << 20 + 1, 1)])
    func size(_ size: (packets: Int, bytes: Int)) {
        let error = #expect(throws: TunnelIOError.self) {
            _ = try PacketBatch(packetCapacity: size.packets, byteCapacity: size.bytes)
        }
        #expect(error?.description.contains("a batch of \(size.packets) packets in \(size.bytes) bytes") == true)
    }

    @Test("A batch of the default size can be read into")
    func standard() throws {
        let batch = try PacketBatch()
        try batch.checkReadable()
        #expect(batch.nextStart() != nil)
        #expect(batch.packetCapacity == 128)
    }

    @Test("A full batch takes no more, in packets or in bytes")
    func full() throws {
        let batch = try PacketBatch(packetCapacity: 2, byteCapacity: 4096)
        let end = batch.byteCapacity
        #expect(batch.append(copying: [UInt8](repeating: 1, count: end + 1)) == nil)
        #expect(batch.append(copying: [UInt8](repeating: 1, count: end)) == 0)
        #expect(batch.append(copying: [1]) == nil)
        #expect(batch.append(copying: []) == 1)
        #expect(batch.append(copying: []) == nil)
        #expect(batch.count == 2)
        #expect(batch.tail == end)
    }

    @Test(
        "A packet outside the region is not appended",
        arguments: [(-1, 4), (0, -1), (0, .max), (.max, 1), (.max, .max), (1 << 20, 0), (4096 * 16, 1)])
    func outside(_ place: (offset: Int, length: Int)) throws {
        let batch = try PacketBatch(packetCapacity: 2, byteCapacity: 4096)
        #expect(batch.append(offset: place.offset, length: place.length) == nil)
        #expect(batch.isEmpty)
        #expect(batch.tail == 0)
    }

    @Test("The tail only moves forward, to the end of the furthest packet")
    func tail() throws {
        let batch = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
        #expect(batch.append(offset: 100, length: 50) == 0)
        #expect(batch.tail == 150)
        #expect(batch.append(offset: 0, length: 100) == 1)
        #expect(batch.tail == 150)
        #expect(unsafe batch.freeBytes.count == batch.byteCapacity - 150)
        batch.alignTail(to: 16)
        #expect(batch.tail == 160)
        batch.alignTail(to: 16)
        #expect(batch.tail == 160)
        #expect(batch.append(offset: batch.byteCapacity - 1, length: 1) == 2)
        batch.alignTail(to: 64)
        #expect(batch.tail == batch.byteCapacity)
    }

    @Test("A packet is narrowed and consumed in place")
    func narrowing() throws {
        let batch = try PacketBatch(packetCapacity: 2, byteCapacity: 4096)
        batch.append(copying: [0, 1, 2, 3, 4, 5])
        batch[0] = PacketDescriptor(offset: 2, length: 3)
        #expect(batch.copy(of: 0) == [2, 3, 4])
        unsafe batch.bytes(of: 0)[0] = 9
        #expect(batch.copy(of: 0) == [9, 3, 4])
        batch[0].length = 0
        #expect(batch.copy(of: 0) == [])
        #expect(batch.count == 1)
        #expect(batch.tail == 6)
    }

    @Test("Packets are truncated, and all forgotten, without losing bytes")
    func forgetting() throws {
        let batch = try PacketBatch(packetCapacity: 3, byteCapacity: 4096)
        for byte: UInt8 in 1...3 { batch.append(copying: [byte], endpoint: .loopback(port: 1)) }
        batch.truncate(to: 1)
        #expect(batch.count == 1)
        #expect(batch.tail == 3)
        #expect(batch.append(copying: [4]) == 1)
        #expect(batch[endpoint: 1].hasSameEnds(as: .unspecified))
        #expect(batch[1].offset == 3)
        batch.removeAll()
        #expect(batch.isEmpty)
        #expect(batch.tail == 0)
        #expect(unsafe Array(batch.freeBytes[..<4]) == [1, 2, 3, 4])
    }

    @Test("A packet of the batch itself can be copied to its end")
    func copyWithin() throws {
        let batch = try PacketBatch(packetCapacity: 2, byteCapacity: 4096)
        batch.append(copying: [1, 2, 3])
        #expect(unsafe batch.append(copying: UnsafeRawBufferPointer(batch.bytes(of: 0))) == 1)
        #expect(batch.copy(of: 1) == [1, 2, 3])
    }
}
