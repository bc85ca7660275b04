// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// Two engines with a session between them, and batches of packets from one to the other.
final class Pair {
    var left: Engine
    var right: Engine
    private(set) var now = Instant(nanoseconds: 3_600_000_000_000)
    private(set) var wall = WallTime(seconds: 1_700_000_000)
    let leftEndpoint = Endpoint(address: .v4(0xc000_0201), port: 51_820)
    let rightEndpoint = Endpoint(address: .v4(0xc000_0202), port: 51_820)
    let rightKey: PublicKey

    init() throws {
        var random = SeededGenerator(seed: 7)
        left = Engine(random: SeededGenerator(seed: 1))
        right = Engine(random: SeededGenerator(seed: 2))
        left.setPrivateKey(PrivateKey(using: &random))
        right.setPrivateKey(PrivateKey(using: &random))
        guard let leftKey = left.publicKey, let rightKey = right.publicKey else { throw BenchmarkError("no keys") }
        self.rightKey = rightKey
        left.addPeer(rightKey)
        left.setEndpoint(rightEndpoint, of: rightKey)
        right.addPeer(leftKey)
        guard let everything = IPPrefix(.v4(0), length: 0) else { throw BenchmarkError("no prefix") }
        left.addAllowedIP(everything, to: rightKey)
        right.addAllowedIP(everything, to: leftKey)
        left.setUp(true, at: now, wall: wall)
        right.setUp(true, at: now, wall: wall)
        try connect()
    }

    /// Advances the time until the present session has expired.
    func expireSession() {
        now = now + .seconds(181)
        wall.seconds += 181
    }

    static let greeting: [UInt8] = [
        0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]

    func connect() throws {
        var toRight = left.send(Pair.greeting, at: now, wall: wall)
        var delivered = 0
        for _ in 0..<4 {
            for datagram in toRight where right.receive(datagram.bytes, from: leftEndpoint, at: now, wall: wall) != nil
            {
                delivered += 1
            }
            for datagram in right.drainAll(at: now, wall: wall) {
                _ = left.receive(datagram.bytes, from: rightEndpoint, at: now, wall: wall)
            }
            toRight = left.drainAll(at: now, wall: wall)
        }
        guard delivered == 1 else { throw BenchmarkError("the two engines do not come to a session") }
    }
}

/// A batch of equal packets, the slab that they are sealed into, and the plans, as a device has them.
@safe
final class Batch {
    static let count = 64

    let pair: Pair
    let packetByteCount: Int
    private let slot: Int
    private let packets: UnsafeMutableRawPointer
    private let sealed: UnsafeMutableRawPointer
    private let capacity: Int
    private let packetViews: UnsafeMutableBufferPointer<PacketView>
    private let datagramViews: UnsafeMutableBufferPointer<PacketView>
    private let sendPlan = SendPlan()
    private let receivePlan = ReceivePlan(capacity: Batch.count)

    init(_ pair: Pair, packetByteCount: Int) {
        self.pair = pair
        self.packetByteCount = packetByteCount
        slot = (packetByteCount + 15 + 63) & ~63
        capacity = SendPlan.maximumDatagramByteCount(forPacket: packetByteCount) * Batch.count
        unsafe packets = .allocate(byteCount: slot * Batch.count, alignment: 64)
        unsafe sealed = .allocate(byteCount: capacity, alignment: 64)
        unsafe packetViews = .allocate(capacity: Batch.count)
        unsafe datagramViews = .allocate(capacity: Batch.count)
        unsafe packets.initializeMemory(as: UInt8.self, repeating: 0, count: slot * Batch.count)
        unsafe sealed.initializeMemory(as: UInt8.self, repeating: 0, count: capacity)
        var header = Pair.greeting
        header[2] = UInt8(packetByteCount >> 8)
        header[3] = UInt8(packetByteCount & 255)
        for index in 0..<Batch.count {
            let base = unsafe packets + index * slot
            unsafe header.withUnsafeBytes { bytes in
                guard let source = bytes.baseAddress else { return }
                unsafe base.copyMemory(from: source, byteCount: bytes.count)
            }
            unsafe packetViews.initializeElement(at: index, to: PacketView(base: base, count: packetByteCount))
            unsafe datagramViews.initializeElement(at: index, to: PacketView(base: sealed, count: 0))
        }
    }

    deinit {
        unsafe packets.deallocate()
        unsafe sealed.deallocate()
        unsafe packetViews.deallocate()
        unsafe datagramViews.deallocate()
    }

    /// Plans and seals the batch.
    func seal() {
        unsafe pair.left.planSend(
            UnsafeBufferPointer(packetViews), mtu: 1420, at: pair.now, wall: pair.wall, into: sendPlan)
        var index = 0
        unsafe sendPlan.seal(UnsafeBufferPointer(packetViews), into: sealed, capacity: capacity) {
            [sealed, datagramViews] offset, byteCount, _ in
            unsafe datagramViews[index] = PacketView(base: sealed + offset, count: byteCount)
            index &+= 1
        }
    }

    /// Plans, opens and commits the datagrams that were sealed last.
    func open() {
        let endpoint = pair.leftEndpoint
        let views = unsafe UnsafeBufferPointer(datagramViews)
        unsafe pair.right.planOpen(
            views, endpoints: { _ in endpoint }, at: pair.now, wall: pair.wall, into: receivePlan)
        unsafe receivePlan.open(views)
        unsafe pair.right.commit(
            receivePlan, views, endpoints: { _ in endpoint }, at: pair.now, wall: pair.wall)
    }

    /// Whether the whole last opened batch can be delivered.
    var isDelivered: Bool {
        (0..<Batch.count).allSatisfy { receivePlan.packetByteCount(at: $0) == packetByteCount }
    }
}
