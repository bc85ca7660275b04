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

@Suite("Utun")
struct UtunTests {
    private let v4 = PacketBuilder.icmpEcho(from: .v4(1), to: .v4(2), identifier: 1, sequence: 1)
    private let v6 = PacketBuilder.icmpEcho(from: .v6(1, 2), to: .v6(3, 4), identifier: 1, sequence: 1)

    @Test(
        "Names are requested by unit",
        arguments: [
            ("utun", UInt32(0)), ("utun0", 1), ("utun7", 8), ("utun123", 124),
            ("", nil), ("wg0", nil), ("utunx", nil), ("utun-1", nil), ("utun01", nil), ("utun+1", nil),
            ("utun4294967295", nil), ("utun99999999999", nil),
        ])
    func units(_ name: String, _ unit: UInt32?) {
        #expect(UtunFraming.unit(of: name) == unit)
    }

    @Test("The header is the address family in network order")
    func framing() {
        #expect(header(of: v4) == [0, 0, 0, 2])
        #expect(header(of: v6) == [0, 0, 0, 30])
        #expect(header(of: [0x50]) == nil)
        #expect(header(of: []) == nil)
        #expect(UtunFraming.packetLength(frame: 24, header: UInt32(2).bigEndian) == 20)
        #expect(UtunFraming.packetLength(frame: 44, header: UInt32(30).bigEndian) == 40)
        #expect(UtunFraming.packetLength(frame: 24, header: UInt32(10).bigEndian) == nil)
        #expect(UtunFraming.packetLength(frame: 4, header: UInt32(2).bigEndian) == nil)
        #expect(UtunFraming.packetLength(frame: -1, header: UInt32(2).bigEndian) == nil)
    }

    @Test(
        "The queue is sized to the receive buffer, as a power of two",
        arguments: [
            (0, UInt32(1)), (1279, 1), (1280, 1), (2560, 2), (524_288, 256), (8 << 20, 4096), (.max, 1 << 31),
        ])
    func pending(_ buffer: Int, _ packets: UInt32) {
        #expect(UtunFraming.pendingPackets(receiveBuffer: buffer) == packets)
    }

    @Test("A device is made with its MTU and a queue that is not one packet")
    func make() throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun4", mtu: 1380, system: system)
        #expect(try tun.currentName() == "utun4")
        #expect(try tun.currentMTU() == 1380)
        #expect(system.state.withLock { $0.pendingPackets } == 256)
        #expect(system.state.withLock { $0.isNonBlocking })
        #expect(system.state.withLock { $0.bufferBytes } == 2 << 20)
        try tun.setUp(true)
        #expect(try tun.currentLinkState() == LinkState(isUp: true, mtu: 1380))
        tun.close()
        #expect(throws: TunnelIOError(.closed)) { try tun.currentMTU() }
        #expect(throws: TunnelIOError(.closed)) { try tun.receive(into: makeBatch()) }
    }

    @Test("A name that is not a utun's, and a descriptor that is not one, are refused")
    func refusals() throws {
        #expect(throws: TunnelIOError(.invalidInterfaceName("wg0"))) {
            _ = try Utun(name: "wg0", mtu: 1420, system: FakeUtunSystem())
        }
        let system = FakeUtunSystem()
        system.state.withLock { $0.name = nil }
        let (reader, writer) = try makeDescriptorPair()
        let error = #expect(throws: TunnelIOError.self) { _ = try Utun(descriptor: writer, system: system) }
        #expect(error?.code == .invalidDescriptor(writer, expected: "that of a utun device"))
        // It was handed over, so it is closed.
        #expect(reachesEnd(reader))
        close(reader)
    }

    @Test("A descriptor that is handed in keeps its name and MTU")
    func handedIn() throws {
        let system = FakeUtunSystem()
        system.state.withLock { $0.mtu = 1234 }
        let tun = try Utun(descriptor: system.connect(unit: 3), system: system)
        #expect(try tun.currentName() == "utun2")
        #expect(try tun.currentMTU() == 1234)
    }

    @Test("A borrowed descriptor stays open, and a returned one belongs to the caller")
    func borrowedAndReleased() throws {
        let (reader, writer) = try makeDescriptorPair()
        let borrower = try Utun(borrowing: writer, system: FakeUtunSystem())
        borrower.close()
        #expect(!isAtEnd(reader))
        let owner = try Utun(descriptor: writer, system: FakeUtunSystem())
        let lent = try owner.copyDescriptor()
        #expect(owner.isInterface && lent != writer)
        close(lent)
        #expect(!isAtEnd(reader))
        let released = try owner.release()
        #expect(throws: TunnelIOError(.closed)) { try owner.currentName() }
        #expect(throws: TunnelIOError(.closed)) { try owner.release() }
        #expect(throws: TunnelIOError(.closed)) { try owner.copyDescriptor() }
        #expect(!isAtEnd(reader))
        close(released)
        #expect(reachesEnd(reader))
        close(reader)
        #expect(throws: TunnelIOError.self) { _ = try Utun(borrowing: -1, system: FakeUtunSystem()) }
    }

    @Test("Headers are removed from packets that are read, and frames of other families are skipped")
    func receive() throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun", mtu: 1420, system: system)
        system.state.withLock {
            $0.frames = [[0, 0, 0, 2] + v4, [0, 0, 0, 1, 9, 9], [0, 0, 0, 30] + v6]
        }
        let batch = try makeBatch()
        #expect(try tun.receive(into: batch) == 2)
        #expect(batch.copy(of: 0) == v4)
        #expect(batch.copy(of: 1) == v6)
        #expect(batch[0].offset % 16 == 0 && batch[1].offset % 16 == 0)
        #expect(batch[1].offset >= batch[0].offset + batch[0].length + 64)
        #expect(tun.statistics.malformedFrames == 1)
        #expect(try tun.receive(into: batch) == 0)
    }

    @Test("A batch that is too small to read into is refused, and the packet stays", arguments: SmallBatch.sizes)
    func smallBatch(_ bytes: Int) throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun", mtu: 1420, system: system)
        system.state.withLock { $0.frames = [[0, 0, 0, 2] + v4] }
        try SmallBatch.expectRefused(by: tun, bytes)
        #expect(try tun.receive(into: makeBatch()) == 1)
    }

    @Test("A socket at its end is a removed device, after its last packets")
    func removed() throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun1", mtu: 1420, system: system)
        system.state.withLock {
            $0.frames = [[0, 0, 0, 2] + v4]
            $0.isAtEnd = true
        }
        let batch = try makeBatch()
        #expect(try tun.receive(into: batch) == 1)
        #expect(throws: TunnelIOError(.deviceRemoved(name: "utun1"))) { try tun.receive(into: batch) }
    }

    @Test("Sent packets get headers, and an invalid IP packet is dropped")
    func send() throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun", mtu: 1420, system: system)
        let batch = try makeBatch()
        for packet in [v4, [0xff], [], v6] { batch.append(copying: packet) }
        #expect(try tun.send(batch) == TunSendResult(sent: 2, dropped: 1))
        #expect(system.state.withLock { $0.written } == [[0, 0, 0, 2] + v4, [0, 0, 0, 30] + v6])
        system.state.withLock { $0.writeFailure = ENOBUFS }
        #expect(try tun.send(batch) == TunSendResult(sent: 0, dropped: 3))
        system.state.withLock { $0.writeFailure = ENXIO }
        #expect(throws: TunnelIOError.self) { try tun.send(batch) }
    }

    @Test("Changes of this interface are reported, once each")
    func events() throws {
        let system = FakeUtunSystem()
        let tun = try Utun(name: "utun", mtu: 1420, system: system)
        system.state.withLock {
            $0.linkMessages = [
                linkMessage(index: 6, isUp: true, mtu: 1), linkMessage(index: 5, isUp: true, mtu: 1420),
                linkMessage(index: 5, isUp: true, mtu: 1300), linkMessage(index: 5, isUp: true, mtu: 1300),
                linkMessage(index: 5, isUp: false, mtu: 900, type: 1), [1, 2],
                linkMessage(index: 5, isUp: false, mtu: 1300),
            ]
        }
        #expect(tun.drainLinkEvents() == [.up, .mtu(1300), .down])
        #expect(tun.drainLinkEvents() == [])
    }

    @Test("The request for an address has its family's layout, byte for byte")
    func addressRequests() throws {
        let v4 = UtunAddressRequest(try InterfaceAddress("10.1.2.3/24"), interface: "utun7")
        #expect(!v4.isIPv6)
        let name = Array("utun7".utf8) + [UInt8](repeating: 0, count: 11)
        let own: [UInt8] = [16, 2, 0, 0, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]
        let mask: [UInt8] = [16, 2, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        #expect(v4.bytes == name + own + own + mask)
        let peer = UtunAddressRequest(try InterfaceAddress("10.1.2.3 peer 10.1.2.4/32"), interface: "utun7")
        #expect(Array(peer.bytes[36..<40]) == [10, 1, 2, 4])
        #expect(Array(peer.bytes[52..<56]) == [255, 255, 255, 255])

        let v6 = UtunAddressRequest(try InterfaceAddress("fd00::1/64"), interface: "utun7")
        #expect(v6.isIPv6 && v6.bytes.count == 128)
        #expect(Array(v6.bytes[..<16]) == name)
        #expect(Array(v6.bytes[16..<26]) == [28, 30, 0, 0, 0, 0, 0, 0, 0xfd, 0])
        #expect(v6.bytes[39] == 1)
        #expect(v6.bytes[44..<72].allSatisfy { $0 == 0 })
        #expect(Array(v6.bytes[72..<90]) == [28, 30, 0, 0, 0, 0, 0, 0] + [UInt8](repeating: 255, count: 8) + [0, 0])
        #expect(v6.bytes[100..<120].allSatisfy { $0 == 0 })
        #expect(v6.bytes[120...].allSatisfy { $0 == 0xff })
        // A name that is too long for the system is cut, and ended.
        let long = UtunAddressRequest(try InterfaceAddress("10.0.0.1"), interface: String(repeating: "u", count: 40))
        #expect(long.bytes.count == 64 && long.bytes[15] == 0)
    }

    @Test(
        "A builder makes an interface with its addresses, and then brings it up or leaves it down",
        arguments: [true, false])
    func build(isUp: Bool) throws {
        let system = FakeUtunSystem()
        var builder = TunBuilder(name: "utun7")
        builder.addresses = try [InterfaceAddress("10.0.0.1/24"), InterfaceAddress("fd00::1/64")]
        builder.mtu = 1420
        builder.isUp = isUp
        let tun = try builder.build(on: system)
        #expect(try tun.currentName() == "utun7")
        #expect(try tun.currentLinkState() == LinkState(isUp: isUp, mtu: 1420))
        let expected = builder.addresses.map { UtunAddressRequest($0, interface: "utun7") }
        #expect(system.state.withLock { $0.addresses } == expected)
    }

    @Test("A builder says what only Linux has, and which address the system refuses")
    func buildFailures() throws {
        var builder = TunBuilder(name: "tun%d")
        builder.txQueueLength = 1
        builder.isMultiQueue = true
        builder.isPersistent = true
        builder.owner = 1
        let error = #expect(throws: TunnelIOError.self) { try builder.build(on: FakeUtunSystem()) }
        guard case .invalidOptions(let problems) = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(problems.count == 5)
        let system = FakeUtunSystem()
        system.state.withLock { $0.addressFailure = EPERM }
        var refused = TunBuilder()
        refused.addresses = [try InterfaceAddress("10.0.0.1/24")]
        let refusal = #expect(throws: TunnelIOError.self) { try refused.build(on: system) }
        #expect(refusal?.errno == EPERM)
        #expect("\(try #require(refusal))".contains("10.0.0.1/24"))
    }

    private func header(of packet: [UInt8]) -> [UInt8]? {
        unsafe packet.withUnsafeBytes { unsafe UtunFraming.header(of: $0) }.map { header in
            unsafe withUnsafeBytes(of: header) { unsafe Array($0) }
        }
    }

    private func linkMessage(index: UInt16, isUp: Bool, mtu: UInt32, type: UInt8 = 0x0e) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 112)
        bytes[3] = type
        bytes[8] = isUp ? 1 : 0
        unsafe bytes.withUnsafeMutableBytes {
            unsafe $0.storeBytes(of: index, toByteOffset: 12, as: UInt16.self)
            unsafe $0.storeBytes(of: mtu, toByteOffset: 24, as: UInt32.self)
        }
        return bytes
    }

    private func makeBatch() throws -> PacketBatch {
        try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18)
    }
}

/// Plays the kernel: descriptors are those of /dev/null, so that closing them is real.
private final class FakeUtunSystem: UtunSystem {
    struct State {
        var name: String? = "utun9"
        var mtu: Int32 = 1500
        var isUp = false
        var isNonBlocking = false
        var pendingPackets: UInt32 = 1
        var bufferBytes: Int32 = 0
        var frames: [[UInt8]] = []
        var isAtEnd = false
        var written: [[UInt8]] = []
        var writeFailure: Int32 = 0
        var linkMessages: [[UInt8]] = []
        var addresses: [UtunAddressRequest] = []
        var addressFailure: Int32 = 0
    }
    let state = Mutex(State())

    func connect(unit: UInt32) -> Int32 {
        state.withLock { $0.name = unit == 0 ? "utun9" : "utun\(unit - 1)" }
        return unsafe open("/dev/null", O_RDWR)
    }
    func interfaceName(of descriptor: Int32) -> String? { state.withLock { $0.name } }
    func interfaceIndex(of name: String) -> UInt32 { 5 }
    func setNonBlocking(_ descriptor: Int32) -> Int32 {
        state.withLock { $0.isNonBlocking = true }
        return 0
    }
    func setBufferSizes(_ byteCount: Int32, of descriptor: Int32) -> Int32 {
        state.withLock { $0.bufferBytes = byteCount }
        return 0
    }
    func receiveBufferSize(of descriptor: Int32) -> Int32 { 512 << 10 }
    func setMaxPendingPackets(_ count: UInt32, of descriptor: Int32) -> Int32 {
        state.withLock { $0.pendingPackets = count }
        return 0
    }
    func mtu(of name: String) -> Int32 { state.withLock { $0.mtu } }
    func setMTU(_ mtu: Int32, of name: String) -> Int32 {
        state.withLock { $0.mtu = mtu }
        return 0
    }
    func isUp(_ name: String) -> Int32 { state.withLock { $0.isUp ? 1 : 0 } }
    func setUp(_ isUp: Bool, of name: String) -> Int32 {
        state.withLock { $0.isUp = isUp }
        return 0
    }
    func addAddress(_ request: UtunAddressRequest) -> Int32 {
        let failure = state.withLock { state in
            state.addresses.append(request)
            // As the kernel does.
            state.isUp = true
            return state.addressFailure
        }
        errno = failure
        return failure == 0 ? 0 : -1
    }
    func openLinkEvents() -> Int32 { unsafe open("/dev/null", O_RDWR) }
    func readLinkEvent(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let message = state.withLock({ $0.linkMessages.isEmpty ? nil : $0.linkMessages.removeFirst() }) else {
            errno = EAGAIN
            return -1
        }
        unsafe buffer.copyBytes(from: message)
        return message.count
    }
    func read(_ descriptor: Int32, header: inout UInt32, packet: UnsafeMutableRawBufferPointer) -> Int {
        let (frame, isAtEnd) = state.withLock { ($0.frames.isEmpty ? nil : $0.frames.removeFirst(), $0.isAtEnd) }
        guard let frame else {
            errno = EAGAIN
            return isAtEnd ? 0 : -1
        }
        unsafe withUnsafeMutableBytes(of: &header) { unsafe $0.copyBytes(from: frame.prefix(4)) }
        unsafe packet.copyBytes(from: frame.dropFirst(4))
        return frame.count
    }
    func write(_ descriptor: Int32, header: UInt32, packet: UnsafeRawBufferPointer) -> Int {
        let failure = state.withLock { $0.writeFailure }
        guard failure == 0 else {
            errno = failure
            return -1
        }
        let frame = unsafe withUnsafeBytes(of: header) { unsafe Array($0) } + Array(packet)
        state.withLock { $0.written.append(frame) }
        return frame.count
    }
}
