// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CCulvert
import CulvertC
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The packets of one end of a socket pair, driven as a C program would; the test holds the other end.
private final class Ends: @unchecked Sendable {
    let inside: Int32
    let packets: OpaquePointer

    init() throws {
        var ends: [Int32] = [-1, -1]
        // SOCK_SEQPACKET, whose type the C libraries do not agree about.
        guard socketpair(AF_UNIX, 5, 0, &ends) == 0 else { throw TestFailure("no socket pair: \(errno)") }
        var made: OpaquePointer?
        var error = culvert_error()
        let result = culvert_packets_open(ends[1], culvert_format(CULVERT_FORMAT_AUTOMATIC), 0, &made, &error)
        // They have their own.
        close(ends[1])
        inside = ends[0]
        guard result == CULVERT_OK, let made = made else { throw TestFailure("\(result): \(CText.of(&error.message))") }
        packets = made
    }

    deinit {
        _ = culvert_packets_free(packets)
        close(inside)
    }

    func write(_ packet: [UInt8]) -> Bool {
        packet.withUnsafeBytes { send(inside, $0.baseAddress, $0.count, 0) } == packet.count
    }

    func read() -> [UInt8]? {
        var poller = pollfd(fd: inside, events: Int16(POLLIN), revents: 0)
        guard poll(&poller, 1, 30_000) == 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = bytes.withUnsafeMutableBytes { recv(inside, $0.baseAddress, $0.count, 0) }
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    func receive(capacity: Int = 65_535, timeout: Int64 = 30_000) -> (
        result: culvert_result, packet: [UInt8], length: Int
    ) {
        var bytes = [UInt8](repeating: 0, count: capacity)
        var length = -1
        let result = culvert_packets_read(packets, &bytes, capacity, timeout, &length, nil)
        return (result, Array(bytes.prefix(max(length, 0))), length)
    }
}

@Suite("Packets of a descriptor, from C")
struct PacketsTests {
    @Test("Packets go both ways, one in each call, unchanged")
    func traffic() throws {
        let ends = try Ends()
        for number in 0..<50 as Range<UInt16> {
            let packet = TestPacket.make(from: 1, to: 2, number: number, byteCount: 60 + Int(number) * 20)
            #expect(ends.write(packet))
            let read = ends.receive()
            #expect(read.result == CULVERT_OK && read.packet == packet)
            #expect(culvert_packets_write(ends.packets, packet, packet.count, nil) == CULVERT_OK)
            #expect(ends.read() == packet)
        }
    }

    @Test("A read returns at its timeout, and reports that no packet arrived")
    func timeouts() throws {
        let ends = try Ends()
        #expect(ends.receive(timeout: 0).result == CULVERT_TIMED_OUT)
        #expect(ends.receive(timeout: 20).result == CULVERT_TIMED_OUT)
        #expect(ends.receive(timeout: 20).length == 0)
        let waiting = TestThread { #expect(ends.receive(timeout: -1).result == CULVERT_OK) }
        #expect(ends.write(TestPacket.make(from: 1, to: 2, number: 1)))
        waiting.join()
        #expect(ends.write(TestPacket.make(from: 1, to: 2, number: 2)))
        #expect(ends.receive(timeout: .max).result == CULVERT_OK)
    }

    @Test("A packet that is longer than the buffer is cut, and said to be")
    func truncated() throws {
        let ends = try Ends()
        let packet = TestPacket.make(from: 1, to: 2, number: 1, byteCount: 100)
        #expect(ends.write(packet))
        let read = ends.receive(capacity: 40)
        #expect(read.result == CULVERT_TRUNCATED)
        #expect(read.length == 100 && read.packet == Array(packet[..<40]))
        #expect(ends.write(packet))
        var length = 0
        #expect(culvert_packets_read(ends.packets, nil, 0, 1000, &length, nil) == CULVERT_TRUNCATED)
        #expect(length == 100)
        // The rest is lost with it.
        #expect(ends.receive(timeout: 0).result == CULVERT_TIMED_OUT)
    }

    @Test("An interruption ends all reads until it is revoked, and no packet is lost")
    func interrupting() throws {
        let ends = try Ends()
        let waiting = TestThread { #expect(ends.receive(timeout: -1).result == CULVERT_INTERRUPTED) }
        #expect(culvert_packets_interrupt(ends.packets, true) == CULVERT_OK)
        waiting.join()
        let packet = TestPacket.make(from: 1, to: 2, number: 1)
        #expect(ends.write(packet))
        #expect(ends.receive().result == CULVERT_INTERRUPTED)
        #expect(culvert_packets_write(ends.packets, packet, packet.count, nil) == CULVERT_OK)
        #expect(culvert_packets_interrupt(ends.packets, false) == CULVERT_OK)
        #expect(ends.receive().packet == packet)
    }

    @Test("Closing ends every call, those that wait as well, and may be repeated")
    func closing() throws {
        let ends = try Ends()
        let waiting = (0..<2).map { _ in TestThread { #expect(ends.receive(timeout: -1).result == CULVERT_ENDED) } }
        for _ in 0..<2 { #expect(culvert_packets_close(ends.packets) == CULVERT_OK) }
        for thread in waiting { thread.join() }
        let packet = TestPacket.make(from: 1, to: 2, number: 1)
        #expect(culvert_packets_write(ends.packets, packet, packet.count, nil) == CULVERT_ENDED)
        #expect(culvert_packets_interrupt(ends.packets, true) == CULVERT_OK)
        // Its duplicate is closed.
        #expect(ends.read() == nil)
    }

    @Test("When the other end closes, reads and writes end")
    func otherEnd() throws {
        let ends = try Ends()
        shutdown(ends.inside, Int32(2))
        #expect(ends.receive().result == CULVERT_ENDED)
        let packet = TestPacket.make(from: 1, to: 2, number: 1)
        #expect(culvert_packets_write(ends.packets, packet, packet.count, nil) == CULVERT_ENDED)
    }

    @Test("A packet that the system does not take is refused, and nothing else has changed")
    func refused() throws {
        let ends = try Ends()
        let packet = TestPacket.make(from: 1, to: 2, number: 1, byteCount: 1400)
        var result = culvert_result(CULVERT_OK)
        var count = 0
        // The packets are not read, until the socket's queue is full.
        while result == CULVERT_OK, count < 1_000_000 {
            result = culvert_packets_write(ends.packets, packet, packet.count, nil)
            count += 1
        }
        #expect(result == CULVERT_REFUSED)
        #expect(ends.read() == packet)
        #expect(culvert_packets_write(ends.packets, packet, packet.count, nil) == CULVERT_OK)
    }

    @Test("Invalid arguments are refused with the reason, and nothing traps")
    func nonsense() throws {
        let ends = try Ends()
        var error = culvert_error()
        var length = 7
        var byte: UInt8 = 0
        let invalid = culvert_result(CULVERT_INVALID_ARGUMENT)
        #expect(culvert_packets_read(nil, &byte, 1, 0, &length, &error) == invalid)
        #expect(length == 0 && error.result == invalid)
        #expect(culvert_packets_read(ends.packets, nil, 1, 0, &length, &error) == invalid)
        #expect(culvert_packets_read(ends.packets, &byte, -1, 0, &length, &error) == invalid)
        #expect(CText.of(&error.message).contains("18446744073709551615"))
        #expect(culvert_packets_read(ends.packets, &byte, 1, 0, nil, &error) == invalid)
        #expect(culvert_packets_write(nil, &byte, 1, &error) == invalid)
        #expect(culvert_packets_write(ends.packets, nil, 1, &error) == invalid)
        for size in [0, -1, .min, .max, 65_536] {
            #expect(culvert_packets_write(ends.packets, &byte, size, &error) == invalid, "\(size)")
        }
        #expect(culvert_packets_interrupt(nil, true) == invalid)
        #expect(culvert_packets_close(nil) == invalid)
        #expect(culvert_packets_free(nil) == CULVERT_OK)

        var packets = OpaquePointer(bitPattern: 1)
        for (descriptor, format, mtu, expected) in [
            (-1, CULVERT_FORMAT_AUTOMATIC, 0, CULVERT_INVALID_DESCRIPTOR),
            (ends.inside, 9, 0, CULVERT_INVALID_ARGUMENT), (ends.inside, -1, 0, CULVERT_INVALID_ARGUMENT),
            (ends.inside, CULVERT_FORMAT_PACKETS, 1, CULVERT_INVALID_ARGUMENT),
            (ends.inside, CULVERT_FORMAT_INTERFACE, 0, CULVERT_INVALID_DESCRIPTOR),
        ] as [(Int32, Int, UInt32, Int)] {
            let result = culvert_packets_open(descriptor, culvert_format(format), mtu, &packets, &error)
            #expect(result == culvert_result(expected), "\(descriptor) \(format) \(mtu)")
            #expect(packets == nil)
        }
        #expect(culvert_packets_open(ends.inside, 0, 0, nil, &error) == invalid)
        #expect(CText.of(&error.message).contains("freed"))
    }
}
