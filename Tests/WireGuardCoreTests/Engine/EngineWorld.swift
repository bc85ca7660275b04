// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting

@testable import WireGuardCore

/// A datagram between two hosts of the simulated Internet.
struct Flight: Sendable, Hashable, CustomStringConvertible {
    var source: Endpoint
    var destination: Endpoint
    var bytes: [UInt8]

    var description: String {
        "\(kind.map { "\($0)" } ?? "datagram") of \(bytes.count) bytes from port \(source.port) to \(destination.port)"
    }

    var kind: MessageKind? {
        unsafe bytes.withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return nil }
            return unsafe MessageKind.classify(base, byteCount: raw.count)
        }
    }

    /// Whether this is transport data with nothing inside.
    var isKeepalive: Bool { kind == .data && bytes.count == Message.minimumDataByteCount }

    func word(at offset: Int) -> UInt32 {
        unsafe bytes.withUnsafeBytes { unsafe $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self).littleEndian }
    }

    /// The receiver index of transport data, the session that it belongs to.
    var receiver: UInt32 { word(at: Message.Data.receiver) }

    var counter: UInt64 {
        unsafe bytes.withUnsafeBytes {
            unsafe $0.loadUnaligned(fromByteOffset: Message.Data.counter, as: UInt64.self).littleEndian
        }
    }
}

/// One host: an engine, its keys and addresses, its clocks, and its deliveries.
final class Node {
    var engine: Engine
    let index: Int
    let privateKey: PrivateKey
    let publicKey: PublicKey
    /// The endpoint of this host; change it to roam.
    var endpoint: Endpoint
    /// The packets that came out of the tunnel, in order.
    var delivered: [[UInt8]] = []
    /// The lead of this host's clocks over the world's.
    var monotonicSkew: Duration = .zero
    var wallSkew: Duration = .zero
    /// How often a deadline was served.
    var deadlineCalls = 0

    init(index: Int, privateKey: PrivateKey, endpoint: Endpoint, seed: UInt64, limits: EngineLimits) {
        self.index = index
        self.privateKey = privateKey
        self.endpoint = endpoint
        publicKey = Identity(privateKey).publicKey
        engine = Engine(random: SeededGenerator(seed: seed), limits: limits)
    }

    // Macros copy their operands, and an engine cannot be copied.
    func addPeer(_ key: PublicKey) -> Bool { engine.addPeer(key) }
    func hasPeer(_ key: PublicKey) -> Bool { engine.hasPeer(key) }
    var peerCount: Int { engine.peerCount }
    func peer(routing address: UInt32) -> PublicKey? { engine.peer(routing: IPAddress.v4(address)) }
    func snapshot(of key: PublicKey) -> PeerSnapshot? { engine.snapshot(of: key) }

    /// This host's own address inside the tunnel.
    var innerV4: UInt32 { 0x0a00_0001 + UInt32(index) << 8 }
    var innerV6: IPAddress { IPAddress.v6(0xfd00_0000_0000_0000 + UInt64(index) << 8, 1) }
    var prefixes: [IPPrefix] {
        [IPPrefix(.v4(innerV4), length: 24), IPPrefix(innerV6, length: 64)].compactMap(\.self)
    }
}

/// Engines on a simulated Internet, in virtual time: deadlines are served exactly when they are due, datagrams arrive
/// after the link's delay, and everything that is sent is recorded.
final class EngineWorld {
    let clock = FakeClock()
    var nodes: [Node] = []
    var link: LossyLink<Flight>
    /// Everything that was put on the wire, with its time.
    let wire = Eavesdropper<Flight>()
    /// Sees each datagram on its way out and may change it; returning false drops it.
    var onWire: ((inout Flight) -> Bool)?
    let presharedKey: PresharedKey?
    private let seed: UInt64

    static let latency: Duration = .milliseconds(10)

    /// `count` hosts that have each other as peers.
    init(_ count: Int = 2, seed: UInt64 = 1, preshared: Bool = false, limits: EngineLimits = EngineLimits()) {
        self.seed = seed
        link = LossyLink(
            LinkConditions(delay: EngineWorld.latency...EngineWorld.latency), seed: seed &+ 77
        ) { flight, generator in
            guard !flight.bytes.isEmpty else { return }
            flight.bytes[generator.int(in: 0..<flight.bytes.count)] ^= UInt8(1 << generator.int(in: 0..<8))
        }
        var keys = SeededGenerator(seed: seed &+ 1_000_003)
        presharedKey = preshared ? PresharedKey(using: &keys) : nil
        for index in 0..<count {
            let node = Node(
                index: index, privateKey: PrivateKey(using: &keys),
                endpoint: Endpoint(address: .v4(0xc000_0201 + UInt32(index)), port: 51820 + UInt16(index)),
                seed: seed &* 31 &+ UInt64(index), limits: limits)
            nodes.append(node)
        }
        for node in nodes { configure(node) }
    }

    subscript(index: Int) -> Node { nodes[index] }

    /// Gives a fresh engine its key and peers, and brings it up.
    func configure(_ node: Node) {
        node.engine.setPrivateKey(node.privateKey)
        for other in nodes where other !== node {
            node.engine.addPeer(other.publicKey)
            node.engine.setEndpoint(other.endpoint, of: other.publicKey)
            node.engine.setPresharedKey(presharedKey, of: other.publicKey)
            for prefix in other.prefixes { node.engine.addAllowedIP(prefix, to: other.publicKey) }
        }
        node.engine.setUp(true, at: now(node), wall: wall(node))
    }

    /// Restarts a host: its engine forgets everything but its configuration.
    func restart(_ index: Int, seed: UInt64) {
        nodes[index].engine = Engine(random: SeededGenerator(seed: seed), limits: nodes[index].engine.limits)
        configure(nodes[index])
    }

    // MARK: Time

    func now(_ node: Node) -> Instant { Instant(nanoseconds: clock.nanoseconds) + node.monotonicSkew }

    func now(_ index: Int) -> Instant { now(nodes[index]) }

    func wall(_ node: Node) -> WallTime {
        let shift = node.wallSkew.wholeNanoseconds
        let total = Int64(clock.wall.nanoseconds) + shift
        let second = TimerConstants.second
        let carry = total >= 0 ? total / second : -((-total + second - 1) / second)
        return WallTime(seconds: clock.wall.seconds + carry, nanoseconds: UInt32(total - carry * second))
    }

    func wall(_ index: Int) -> WallTime { wall(nodes[index]) }

    /// Lets time pass, serving everything that is due on the way.
    func run(for duration: Duration) { run(until: clock.nanoseconds + duration.wholeNanoseconds) }

    func run(until end: Int64) {
        for node in nodes { flush(node) }
        while let next = nextEvent, next <= end {
            if next > clock.nanoseconds { clock.advance(by: .nanoseconds(next - clock.nanoseconds)) }
            step()
        }
        if end > clock.nanoseconds { clock.advance(by: .nanoseconds(end - clock.nanoseconds)) }
    }

    /// The time of the next delivery or deadline on the world's clock, or `nil` if there is none.
    private var nextEvent: Int64? {
        var earliest = link.nextDelivery
        for node in nodes {
            guard let deadline = node.engine.nextDeadline else { continue }
            let time = deadline.nanoseconds - node.monotonicSkew.wholeNanoseconds
            earliest = min(earliest ?? .max, time)
        }
        return earliest
    }

    private func step() {
        for flight in link.deliver(upTo: clock.nanoseconds) { arrive(flight) }
        for node in nodes {
            if let deadline = node.engine.nextDeadline, deadline <= now(node) {
                node.deadlineCalls += 1
                node.engine.deadlineReached(at: now(node), wall: wall(node))
            }
            flush(node)
        }
    }

    // MARK: Datagrams

    /// Sends an engine's own messages.
    func flush(_ node: Node) {
        for datagram in node.engine.drainAll(at: now(node), wall: wall(node)) { transmit(datagram, from: node) }
    }

    func transmit(_ datagram: OutgoingDatagram, from node: Node) {
        transmit(Flight(source: node.endpoint, destination: datagram.endpoint, bytes: datagram.bytes))
    }

    /// Puts a datagram on the wire, where it is recorded.
    func transmit(_ flight: Flight) {
        var flight = flight
        wire.observe(flight, at: clock.nanoseconds)
        if let onWire, !onWire(&flight) { return }
        link.send(flight, at: clock.nanoseconds)
    }

    /// Lets a datagram arrive now, at the host that has its destination.
    func arrive(_ flight: Flight) {
        guard let node = nodes.first(where: { $0.endpoint == flight.destination }) else { return }
        receive(flight.bytes, from: flight.source, at: node)
    }

    @discardableResult
    func receive(_ bytes: [UInt8], from source: Endpoint, at node: Node) -> [UInt8]? {
        let packet = node.engine.receive(bytes, from: source, at: now(node), wall: wall(node))
        if let packet { node.delivered.append(packet) }
        flush(node)
        return packet
    }

    // MARK: Packets

    func packet(from sender: Int, to receiver: Int, _ payload: [UInt8]) -> [UInt8] {
        TestPacket.v4(from: nodes[sender].innerV4, to: nodes[receiver].innerV4, payload: payload)
    }

    /// Sends a packet through the tunnel and returns it.
    @discardableResult
    func send(_ sender: Int, to receiver: Int, _ payload: [UInt8] = [1, 2, 3]) -> [UInt8] {
        let packet = packet(from: sender, to: receiver, payload)
        send(packet, from: sender)
        return packet
    }

    func send(_ packet: [UInt8], from sender: Int) {
        let node = nodes[sender]
        for datagram in node.engine.send(packet, at: now(node), wall: wall(node)) { transmit(datagram, from: node) }
    }

    /// Seals a packet without sending it.
    func seal(_ sender: Int, to receiver: Int, _ payload: [UInt8] = [1, 2, 3]) -> [UInt8] {
        let node = nodes[sender]
        let packet = packet(from: sender, to: receiver, payload)
        return node.engine.send(packet, at: now(node), wall: wall(node)).first?.bytes ?? []
    }

    /// Lets `initiator` begin a session with `responder`, and both use it; then time is quiet.
    func establish(_ initiator: Int = 0, with responder: Int = 1) {
        send(initiator, to: responder, [0])
        run(for: .milliseconds(100))
        for node in nodes { node.delivered = [] }
    }

    // MARK: White box

    func peer(_ node: Int, of other: Int) -> Peer? { nodes[node].engine.peer(nodes[other].publicKey) }

    func snapshot(_ node: Int, of other: Int) -> PeerSnapshot? {
        nodes[node].engine.snapshot(of: nodes[other].publicKey)
    }

    /// The datagrams that `sender` put on the wire, with times.
    func sent(_ sender: Int, _ accept: (Flight) -> Bool) -> [Eavesdropper<Flight>.Record] {
        wire.records.filter { $0.message.source == nodes[sender].endpoint && accept($0.message) }
    }

    func sent(_ sender: Int, _ kind: MessageKind) -> [Eavesdropper<Flight>.Record] {
        sent(sender) { $0.kind == kind }
    }

    func keepalives(_ sender: Int) -> [Eavesdropper<Flight>.Record] { sent(sender, \.isKeepalive) }
}

extension Eavesdropper.Record {
    /// The time since an earlier moment, in seconds.
    func seconds(since start: Int64) -> Double { Double(time - start) / 1e9 }
}

extension TestBatch {
    /// Plans, opens and commits the batch as one; says which of its datagrams had something to deliver.
    func receive(
        _ plan: ReceivePlan, at node: Node, from source: Endpoint, _ world: EngineWorld,
        between: (Node) -> Void = { _ in }
    ) -> [Bool] {
        unsafe withViews { views in
            unsafe node.engine.planOpen(
                views, endpoints: { _ in source }, at: world.now(node), wall: world.wall(node), into: plan)
            unsafe plan.open(views)
            between(node)
            unsafe node.engine.commit(
                plan, views, endpoints: { _ in source }, at: world.now(node), wall: world.wall(node))
            return views.indices.map { index in plan.packetByteCount(at: index) > 0 }
        }
    }
}
