// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

/// A WireGuard that runs in simulated time: the real engine on the real interface of a memory host, with the sockets of a
/// ``SimulatedWorld``. One thread at a time uses it.
final class SimulatedPlane: DataPlane, @unchecked Sendable {
    private var engine: Engine
    private let interface: TapTun
    private let batch: PacketBatch
    private let world: SimulatedWorld
    private(set) var socket: SimulatedSocket
    private var fixedPort: UInt16 = 0
    private(set) var isClosed = false
    /// The time since which programs have waited for an answer.
    private(set) var askedAt: Duration?

    init(_ tun: any TunDevice, _ update: UAPIDeviceUpdate, world: SimulatedWorld) throws(TunnelError) {
        self.world = world
        interface = TapTun(tun, filter: true)
        engine = Engine(random: world.makeGenerator())
        do throws(TunnelIOError) {
            batch = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * 2_048)
        } catch {
            throw TunnelError(.hostFailed, error.description)
        }
        socket = world.bind(port: 0)
        try apply(update)
        engine.setUp(true, at: world.phoneNow, wall: world.phoneWall)
        world.plane = self
        flush()
    }

    var listenPort: UInt16? { isClosed ? nil : socket.port }

    var publicKey: PublicKey? { engine.publicKey }

    /// The number of authentic datagrams received.
    var signsOfLife: UInt64 {
        let statistics = engine.statistics
        return statistics.packetsReceived &+ statistics.keepalivesReceived &+ statistics.handshakesCompleted
            &+ statistics.malformedPackets &+ statistics.disallowedSource &+ statistics.responsesSent
    }

    var nextDeadline: Instant? { isClosed ? nil : engine.nextDeadline }

    func deadlineReached() {
        guard !isClosed else { return }
        engine.deadlineReached(at: world.phoneNow, wall: world.phoneWall)
        flush()
    }

    /// Records that data arrived.
    func noteLife() { askedAt = nil }

    /// Sends the packets that programs gave to the interface.
    func pump() {
        guard !isClosed else { return }
        while true {
            batch.removeAll()
            guard let count = try? interface.receive(into: batch), count > 0 else { return }
            askedAt = askedAt ?? world.now
            for index in 0..<batch.count where batch[index].length > 0 {
                let datagrams = engine.send(batch.copy(of: index), at: world.phoneNow, wall: world.phoneWall)
                for datagram in datagrams { world.transmit(datagram, from: socket) }
            }
        }
    }

    func receive(_ datagram: [UInt8], from source: Endpoint) {
        guard !isClosed else { return }
        let packet = engine.receive(datagram, from: source, at: world.phoneNow, wall: world.phoneWall)
        if let packet {
            batch.removeAll()
            _ = batch.append(copying: packet)
            _ = try? interface.send(batch)
        }
        flush()
    }

    private func flush() {
        for datagram in engine.drainAll(at: world.phoneNow, wall: world.phoneWall) {
            world.transmit(datagram, from: socket)
        }
    }

    // MARK: - The data plane

    func peers() -> [DataPlanePeer] {
        var peers: [DataPlanePeer] = []
        let now = world.phoneWall
        engine.forEachPeer { peer in
            let age = peer.lastHandshake.map { time -> Duration in
                .seconds(now.seconds - time.seconds)
                    + .nanoseconds(Int64(now.nanoseconds) - Int64(time.nanoseconds))
            }
            peers.append(
                DataPlanePeer(
                    publicKey: peer.publicKey, endpoint: peer.endpoint, handshakeAge: age,
                    receivedBytes: peer.receivedBytes, sentBytes: peer.sentBytes,
                    persistentKeepalive: peer.persistentKeepalive))
        }
        return peers
    }

    func apply(_ update: UAPIDeviceUpdate) throws(TunnelError) {
        guard !isClosed else { throw TunnelError(.closed, "closed") }
        if let port = update.listenPort, port != fixedPort {
            fixedPort = port
            socket = world.bind(port: port)
        }
        engine.apply(update, at: world.phoneNow, wall: world.phoneWall)
        flush()
    }

    func rebind() throws(TunnelError) {
        guard !isClosed else { throw TunnelError(.closed, "closed") }
        socket = world.bind(port: fixedPort)
    }

    func requestHandshake(with key: PublicKey) {
        guard !isClosed else { return }
        engine.requestHandshake(with: key, at: world.phoneNow, wall: world.phoneWall)
        flush()
    }

    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        guard !isClosed else { return false }
        defer { flush() }
        return engine.submit(packet, to: destination, at: world.phoneNow, wall: world.phoneWall)
    }

    func onNextPacket(_ handler: (@Sendable () -> Void)?) { interface.onNextPacket(handler) }

    var hasDelivered: Bool { interface.hasDelivered }

    func forgetPackets() { interface.forgetPackets() }

    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?) { interface.setFilter(filter) }

    func drops() -> [String: UInt64] { [:] }

    func close() async {
        isClosed = true
        interface.close()
    }
}
