// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("SocketTun", .timeLimit(.minutes(1)))
struct SocketTunTests {
    /// The kinds of socket that preserve message boundaries; Darwin has one.
    static let kinds: [Int32] =
        SocketEnds.hasSequencedPackets ? [SocketEnds.datagrams, SocketEnds.sequenced] : [SocketEnds.datagrams]

    private func packets(_ count: Int) -> [[UInt8]] { (0..<count).map { pattern(20 + $0 * 37, seed: $0) } }

    private func makeBatch(_ packets: [[UInt8]] = []) throws -> PacketBatch {
        let batch = try PacketBatch(packetCapacity: max(64, packets.count), byteCapacity: 1 << 18)
        for packet in packets { batch.append(copying: packet) }
        return batch
    }

    /// The code of the error that `body` throws, or `nil`.
    private func failure<Result>(_ body: () throws -> Result) -> TunnelIOError.Code? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? TunnelIOError)?.code
        }
    }

    /// Whether the device counts as removed.
    private func isRemoved<Result>(_ body: () throws -> Result) -> Bool {
        if case .deviceRemoved? = failure(body) { true } else { false }
    }

    @Test("Packets come in the order in which they were written, and go in the order of the batch", arguments: kinds)
    func order(kind: Int32) throws {
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let packets = packets(8)
        for packet in packets { try #require(ends.write(packet)) }
        let batch = try makeBatch()
        #expect(try device.receive(into: batch) == packets.count)
        #expect((0..<batch.count).map { batch.copy(of: $0) } == packets)
        #expect((0..<batch.count).allSatisfy { batch[$0].offset % 16 == 0 })
        #expect(try device.receive(into: batch) == 0, "nothing more, and no end")
        #expect(try device.send(makeBatch(packets)) == TunSendResult(sent: packets.count, dropped: 0))
        #expect(packets.indices.map { _ in ends.read() } == packets)
    }

    @Test("A batch that is too small to read into is refused, and the packet stays", arguments: SmallBatch.sizes)
    func smallBatch(_ bytes: Int) throws {
        let ends = try SocketEnds(SocketEnds.datagrams)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        try #require(ends.write(packets(1)[0]))
        try SmallBatch.expectRefused(by: device, bytes)
        #expect(try device.receive(into: makeBatch()) == 1)
    }

    @Test("A message of no bytes is skipped, before packets and behind them", arguments: kinds)
    func emptyMessages(kind: Int32) throws {
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let packets = packets(2)
        for message in [[], packets[0], [], [], packets[1], []] { try #require(ends.write(message)) }
        let batch = try makeBatch()
        #expect(try device.receive(into: batch) == 2)
        #expect((0..<batch.count).map { batch.copy(of: $0) } == packets)
        #expect(try device.receive(into: batch) == 0)
        #expect(!isReadable(device.readiness, milliseconds: 0))
    }

    @Test(
        "Once the caller has shut the socket down, reading and writing end",
        arguments: kinds, [Int32(SHUT_RD), Int32(SHUT_RDWR)])
    func shutDown(kind: Int32, how: Int32) throws {
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let batch = try makeBatch()
        #expect(try device.receive(into: batch) == 0)
        try #require(shutdown(ends.device, how) == 0)
        #expect(isReadable(device.readiness, milliseconds: 60_000))
        #expect(isRemoved { try device.receive(into: batch) })
        if how == Int32(SHUT_RDWR) {
            let one = try makeBatch(packets(1))
            #expect(isRemoved { try device.send(one) })
        }
    }

    @Test("Packets written before a shutdown are read before the end", arguments: kinds)
    func remainder(kind: Int32) throws {
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let packets = packets(3)
        for packet in packets { try #require(ends.write(packet)) }
        try #require(shutdown(ends.device, Int32(SHUT_RDWR)) == 0)
        let batch = try makeBatch()
        // When reading is shut down, Darwin discards the waiting messages; Linux keeps them.
        let count = (try? device.receive(into: batch)) ?? 0
        #expect(count == (SocketEnds.keepsAfterShutdown ? packets.count : 0))
        #expect(isRemoved { try device.receive(into: batch) })
    }

    @Test("When the other end of a connection closes, reading ends and writing raises no signal")
    func otherEndCloses() throws {
        guard let kind = Self.kinds.first(where: { $0 == SocketEnds.sequenced }) else { return }
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let batch = try makeBatch()
        try #require(ends.write(packets(1)[0]))
        ends.closeProgram()
        #expect(isReadable(device.readiness, milliseconds: 60_000))
        #expect(try device.receive(into: batch) == 1)
        #expect(isRemoved { try device.receive(into: batch) })
        let one = try makeBatch(packets(1))
        #expect(isRemoved { try device.send(one) })
    }

    @Test("An empty message does not stand for the end while packets wait behind it, though the other end has closed")
    func otherEndClosesAfterEmptyMessage() throws {
        guard let kind = Self.kinds.first(where: { $0 == SocketEnds.sequenced }) else { return }
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let batch = try makeBatch()
        let packets = packets(2)
        for message in [[], packets[0], packets[1]] { try #require(ends.write(message)) }
        ends.closeProgram()
        #expect(try device.receive(into: batch) == 2)
        #expect((0..<batch.count).map { batch.copy(of: $0) } == packets)
        #expect(isRemoved { try device.receive(into: batch) })
    }

    @Test("With datagrams, a sender notices that the other end closed, and gets no signal")
    func otherEndOfDatagramsCloses() throws {
        let ends = try SocketEnds(SocketEnds.datagrams)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        ends.closeProgram()
        let one = try makeBatch(packets(1))
        #expect(isRemoved { try device.send(one) })
    }

    @Test("Packets that the socket's queue cannot hold are dropped and counted, and the rest arrives", arguments: kinds)
    func fullQueue(kind: Int32) throws {
        let ends = try SocketEnds(kind)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        let batch = try makeBatch((0..<200).map { pattern(1000, seed: $0) })
        var total = TunSendResult(sent: 0, dropped: 0)
        for _ in 0..<100 where total.dropped == 0 {
            let result = try device.send(batch)
            #expect(result.sent + result.dropped == batch.count)
            total.sent += result.sent
            total.dropped += result.dropped
        }
        #expect(total.dropped > 0)
        for index in 0..<total.sent { #expect(ends.read() == pattern(1000, seed: index % batch.count)) }
        #expect(ends.read() == nil)
        #expect(try device.send(makeBatch(packets(1))) == TunSendResult(sent: 1, dropped: 0))
    }

    @Test("A stream, a file, a number that is not open and an MTU out of range are refused")
    func refused() throws {
        let stream = try SocketEnds(1)
        func code(_ number: Int32, mtu: Int = 1420) -> TunnelIOError.Code? {
            failure { try SocketTun(borrowing: number, mtu: mtu) }
        }
        let expected = "a socket that preserves message boundaries"
        #expect(code(stream.device) == .invalidDescriptor(stream.device, expected: expected))
        let file = unsafe open("/dev/null", O_RDONLY)
        defer { close(file) }
        #expect(code(file) == .invalidDescriptor(file, expected: "a socket"))
        #expect(code(-1) == .invalidDescriptor(-1, expected: "an open descriptor"))
        let ends = try SocketEnds(SocketEnds.datagrams)
        for mtu in [67, 65_536] {
            #expect(code(ends.device, mtu: mtu) == .invalidOptions(["the MTU \(mtu) must be from 68 to 65,535"]))
        }
    }

    @Test("Closing the device closes its duplicate only")
    func closing() throws {
        let ends = try SocketEnds(SocketEnds.datagrams)
        let device = try SocketTun(borrowing: ends.device, mtu: 1420)
        #expect(try device.currentMTU() == 1420)
        device.close()
        device.close()
        let batch = try makeBatch()
        #expect(failure { try device.receive(into: batch) } == .closed)
        #expect(fcntl(ends.device, F_GETFL) >= 0)
        #expect(ends.write([1]), "the caller's is still there to read from")
    }
}

/// A socket pair: the end that a device works on, and the end that a program holds.
private final class SocketEnds {
    /// `SOCK_DGRAM` and `SOCK_SEQPACKET`, whose types the C libraries do not agree about.
    static let datagrams: Int32 = 2
    static let sequenced: Int32 = 5

    let device: Int32
    private var program: Int32

    init(_ kind: Int32) throws {
        var ends: [Int32] = [-1, -1]
        try #require(unsafe socketpair(AF_UNIX, kind | Self.closeOnExecution, 0, &ends) == 0)
        (device, program) = (ends[0], ends[1])
        _ = fcntl(program, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(device)
        closeProgram()
    }

    func closeProgram() {
        guard program >= 0 else { return }
        close(program)
        program = -1
    }

    func write(_ message: [UInt8]) -> Bool {
        unsafe message.withUnsafeBytes { unsafe send(program, $0.baseAddress, $0.count, 0) } == message.count
    }

    /// The next message; `nil` if none waits.
    func read() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe recv(program, $0.baseAddress, $0.count, 0) }
        return count >= 0 ? Array(bytes[..<count]) : nil
    }

    #if os(Linux)
        static let hasSequencedPackets = true
        static let keepsAfterShutdown = true
        /// `SOCK_CLOEXEC` is `O_CLOEXEC` (linux/net.h).
        private static let closeOnExecution = O_CLOEXEC
    #else
        static let hasSequencedPackets = false
        static let keepsAfterShutdown = false
        private static let closeOnExecution: Int32 = 0
    #endif
}
