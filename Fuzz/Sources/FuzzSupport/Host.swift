// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// The time that all hosts of one run share.
final class RunClock {
    /// The monotonic time.
    private(set) var now = Instant(nanoseconds: 3_600_000_000_000)
    /// The wall clock.
    private(set) var wall = WallTime(seconds: 1_700_000_000)

    /// A clock at an arbitrary time.
    init() {}

    /// Lets time go by.
    func advance(by duration: Duration) {
        now = now + duration
        let (seconds, attoseconds) = duration.components
        let nanoseconds = Int64(wall.nanoseconds) + attoseconds / 1_000_000_000
        wall.seconds += seconds + nanoseconds / 1_000_000_000
        wall.nanoseconds = UInt32(nanoseconds % 1_000_000_000)
    }
}

/// One engine with an address, and helpers that use the same batch calls as a device does.
final class Host {
    /// The engine.
    var engine: Engine
    /// The source of the engine's own datagrams.
    let endpoint: Endpoint
    /// Its public key.
    let publicKey: PublicKey
    private let clock: RunClock
    private let sendPlan = SendPlan()
    private let receivePlan = ReceivePlan(capacity: 64)

    /// An engine that is up, at 192.0.2.`number`, with a key that follows from the number.
    init(number: UInt8, clock: RunClock, limits: EngineLimits = EngineLimits()) {
        var random = SeededGenerator(seed: UInt64(number) &* 0x9e37_79b9)
        let key = PrivateKey(using: &random)
        engine = Engine(random: random, limits: limits)
        engine.setPrivateKey(key)
        guard let publicKey = engine.publicKey else { finding("no public key") }
        self.publicKey = publicKey
        endpoint = Endpoint(address: .v4(0xc000_0200 | UInt32(number)), port: 51_820)
        self.clock = clock
        engine.setUp(true, at: clock.now, wall: clock.wall)
    }

    /// Makes `other` a peer with `networks`.
    func add(_ other: Host, _ networks: [IPPrefix], presharedKey: PresharedKey? = nil) {
        engine.addPeer(other.publicKey)
        engine.setEndpoint(other.endpoint, of: other.publicKey)
        engine.setPresharedKey(presharedKey, of: other.publicKey)
        for network in networks { engine.addAllowedIP(network, to: other.publicKey) }
    }

    /// Sends packets as one batch, checks that they are unchanged, and returns the sealed datagrams.
    ///
    /// Datagrams that wait inside the engine are left for ``drain(mtu:)``.
    func seal(_ packets: [[UInt8]], mtu: Int) -> [OutgoingDatagram] {
        let buffers = Buffers(packets, roomBehind: 15)
        var result: [OutgoingDatagram] = []
        let capacity = packets.reduce(0) { $0 + SendPlan.maximumDatagramByteCount(forPacket: $1.count) }
        let out = UnsafeMutableRawBufferPointer.allocate(byteCount: max(capacity, 1), alignment: 1)
        defer { unsafe out.deallocate() }
        unsafe engine.planSend(buffers.views, mtu: mtu, at: clock.now, wall: clock.wall, into: sendPlan)
        guard let start = out.baseAddress else { return [] }
        var end = 0
        unsafe sendPlan.seal(buffers.views, into: start, capacity: capacity) { offset, byteCount, endpoint in
            require(offset == end && byteCount > 0 && offset + byteCount <= capacity, "datagrams overlap or overflow")
            end = offset + byteCount
            unsafe result.append(
                OutgoingDatagram(bytes: Array(out[offset..<(offset + byteCount)]), endpoint: endpoint))
        }
        require(buffers.areUntouched, "sealing changed a packet or the bytes behind it")
        return result
    }

    /// Receives datagrams as one batch and gives the packets to be delivered.
    func receive(_ datagrams: [(bytes: [UInt8], source: Endpoint)]) -> [[UInt8]] {
        var delivered: [[UInt8]] = []
        var rest = datagrams[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(64))
            rest = rest.dropFirst(64)
            let buffers = Buffers(batch.map(\.bytes), roomBehind: 0)
            let sources: (Int) -> Endpoint = { batch[$0].source }
            unsafe engine.planOpen(
                buffers.views, endpoints: sources, at: clock.now, wall: clock.wall, into: receivePlan)
            unsafe receivePlan.open(buffers.views)
            unsafe engine.commit(
                receivePlan, buffers.views, endpoints: sources, at: clock.now, wall: clock.wall)
            for index in batch.indices {
                let byteCount = receivePlan.packetByteCount(at: index)
                guard byteCount > 0 else { continue }
                require(
                    ReceivePlan.packetOffset + byteCount + 16 <= batch[index].bytes.count,
                    "a packet is longer than its datagram allows")
                delivered.append(buffers.bytes(at: index, from: ReceivePlan.packetOffset, byteCount))
            }
        }
        return delivered
    }

    /// Returns the datagrams that the engine sends by itself.
    func drain(mtu: Int = 1420) -> [OutgoingDatagram] {
        engine.drainAll(mtu: mtu, at: clock.now, wall: clock.wall)
    }

    /// Runs the timers that are due, and checks that none stays due.
    func runTimers() {
        guard let deadline = engine.nextDeadline, deadline <= clock.now else { return }
        engine.deadlineReached(at: clock.now, wall: clock.wall)
        if let next = engine.nextDeadline {
            require(next > clock.now, "a timer that ran is still due: it would run without end")
        }
    }
}

/// Packets in separate memory, so that a sanitizer detects an access beyond one.
@safe
final class Buffers {
    private let originals: [[UInt8]]
    private let roomBehind: Int
    private let storage: UnsafeMutableBufferPointer<PacketView>

    var views: UnsafeBufferPointer<PacketView> { unsafe UnsafeBufferPointer(storage) }

    init(_ packets: [[UInt8]], roomBehind: Int) {
        originals = packets
        self.roomBehind = roomBehind
        unsafe storage = .allocate(capacity: packets.count)
        for (index, packet) in packets.enumerated() {
            let size = packet.count + roomBehind
            let memory = UnsafeMutableRawPointer.allocate(byteCount: max(size, 1), alignment: 1)
            unsafe memory.initializeMemory(as: UInt8.self, repeating: 0xa5, count: size)
            unsafe packet.withUnsafeBytes { bytes in
                guard let base = bytes.baseAddress else { return }
                unsafe memory.copyMemory(from: base, byteCount: bytes.count)
            }
            unsafe storage.initializeElement(at: index, to: PacketView(base: memory, count: packet.count))
        }
    }

    deinit {
        for index in unsafe storage.indices { unsafe storage[index].base.deallocate() }
        unsafe storage.deallocate()
    }

    func bytes(at index: Int, from offset: Int, _ count: Int) -> [UInt8] {
        unsafe Array(UnsafeRawBufferPointer(start: storage[index].base + offset, count: count))
    }

    var areUntouched: Bool {
        originals.indices.allSatisfy { index in
            let bytes = bytes(at: index, from: 0, originals[index].count + roomBehind)
            return bytes.starts(with: originals[index]) && bytes.suffix(roomBehind).allSatisfy { $0 == 0xa5 }
        }
    }
}
