// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: configuration while it runs")
struct ConfigurationChangeTests {
    private func flows(_ world: EngineWorld, _ from: Int, _ to: Int, within: Duration = .seconds(1)) -> Bool {
        let before = world[to].delivered.count
        world.send(from, to: to, [77])
        world.run(for: within)
        return world[to].delivered.count > before
    }

    // MARK: Keys

    @Test("A new pre-shared key leaves the live session alone")
    func presharedKeyLive() {
        var random = SeededGenerator(seed: 5)
        let world = EngineWorld()
        world.establish()
        world[0].engine.setPresharedKey(PresharedKey(using: &random), of: world[1].publicKey)
        #expect(flows(world, 0, 1) && flows(world, 1, 0))
        #expect(world.sent(0, .initiation).count == 1)
    }

    @Test("A pre-shared key on one side only blocks the next handshake; on both it works")
    func presharedKeyBlocks() {
        var random = SeededGenerator(seed: 5)
        let key = PresharedKey(using: &random)
        let world = EngineWorld()
        world.establish()
        world[0].engine.setPresharedKey(key, of: world[1].publicKey)
        world.run(for: .seconds(200))
        #expect(!flows(world, 0, 1, within: .seconds(20)))
        #expect(world[0].engine.statistics.rejectedHandshakes >= 2)
        world[1].engine.setPresharedKey(key, of: world[0].publicKey)
        #expect(flows(world, 0, 1, within: .seconds(6)))
        #expect(flows(world, 1, 0))
    }

    @Test("Removing the pre-shared key on both sides, with zeros or nil, works")
    func presharedKeyRemoved() {
        let world = EngineWorld(preshared: true)
        world.establish()
        world[0].engine.setPresharedKey(nil, of: world[1].publicKey)
        world[1].engine.setPresharedKey(PresharedKey(bytes: [UInt8](repeating: 0, count: 32)), of: world[0].publicKey)
        #expect(world.snapshot(1, of: 0)?.presharedKey == nil)
        world.run(for: .seconds(200))
        #expect(flows(world, 0, 1))
    }

    @Test("A new private key makes new sessions under the new identity only")
    func privateKey() {
        var random = SeededGenerator(seed: 6)
        let key = PrivateKey(using: &random)
        let world = EngineWorld()
        world.establish()
        world[0].engine.setPrivateKey(key)
        #expect(world.snapshot(0, of: 1)?.hasSession == false)
        #expect(!flows(world, 0, 1, within: .seconds(3)))
        guard let newKey = world[0].engine.publicKey else {
            Issue.record("no public key")
            return
        }
        #expect(newKey != world[0].publicKey)
        world[1].engine.addPeer(newKey)
        world[1].engine.addAllowedIP(world[0].prefixes[0], to: newKey)
        #expect(flows(world, 0, 1, within: .seconds(6)))
        let packet = world.send(1, to: 0)
        world.run(for: .seconds(1))
        #expect(world[0].delivered.last == packet)
    }

    @Test("The same private key again changes nothing")
    func samePrivateKey() {
        let world = EngineWorld()
        world.establish()
        world[0].engine.setPrivateKey(PrivateKey(bytes: world[0].privateKey.testBytes))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        #expect(flows(world, 0, 1))
        #expect(world.sent(0, .initiation).count == 1)
    }

    @Test("A private key is shown clamped, and is the same key whether it comes clamped or not")
    func unclampedPrivateKey() throws {
        let world = EngineWorld()
        world.establish()
        var bytes = world[0].privateKey.testBytes
        let clamped = bytes
        bytes[0] |= 5
        bytes[31] |= 128
        let unclamped = try #require(PrivateKey(bytes: bytes))
        world[0].engine.setPrivateKey(unclamped)
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        #expect(world[0].engine.privateKey?.testBytes == clamped)
        var engine = Engine(random: SeededGenerator(seed: 1))
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(unclamped)
        engine.apply(update, at: world.now(0), wall: world.wall(0))
        let shown = engine.uapiState.privateKey
        #expect(shown?.testBytes == clamped)
        #expect(shown?.publicKey == world[0].publicKey)
    }

    @Test("Without a private key nothing is sent or answered; with it again, everything continues")
    func noPrivateKey() {
        let world = EngineWorld()
        world[1].engine.setPrivateKey(nil)
        world.send(1, to: 0)
        #expect(!flows(world, 0, 1, within: .seconds(2)))
        #expect(world.sent(1) { _ in true }.isEmpty)
        world[1].engine.setPrivateKey(world[1].privateKey)
        #expect(flows(world, 0, 1, within: .seconds(10)))
    }

    @Test("A device is not its own peer, in either order of configuration")
    func ownKey() {
        let world = EngineWorld()
        #expect(!world[0].addPeer(world[0].publicKey))
        #expect(!world[0].hasPeer(world[0].publicKey))
        world[0].engine.setPrivateKey(world[1].privateKey)
        #expect(!world[0].hasPeer(world[1].publicKey))
        #expect(world[0].engine.peerCount == 0)
    }

    // MARK: Peers

    @Test("Removing a peer frees everything of it")
    func removal() {
        let world = EngineWorld()
        world.establish()
        weak let peer = world.peer(0, of: 1)
        weak let keypair = world.peer(0, of: 1)?.current
        weak let keys = world.peer(0, of: 1)?.current?.keys
        #expect(peer != nil && keypair != nil && keys != nil)
        world[0].engine.removePeer(world[1].publicKey)
        #expect(peer == nil && keypair == nil && keys == nil)
        #expect(world[0].engine.indices.count == 0)
        #expect(world[0].engine.nextDeadline == nil)
        #expect(world[0].peer(routing: world[1].innerV4) == nil)
        world.send(0, to: 1)
        #expect(world.sent(0, .data).count == 1)
        #expect(world[0].engine.statistics.noRoute == 1)
    }

    @Test("A peer removed with packets waiting leaves none behind")
    func removalWhileWaiting() {
        let world = EngineWorld()
        for number in 0..<10 { world.send(0, to: 1, [UInt8(number)]) }
        world[0].engine.removePeer(world[1].publicKey)
        #expect(world[0].engine.stagedBytes == 0)
        world.run(for: .seconds(100))
        #expect(world.sent(0, .initiation).count == 1)
        #expect(world.sent(0, .data).isEmpty)
    }

    @Test("A datagram that was being opened when its peer was removed is not delivered")
    func removalBetweenOpenAndCommit() {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch((0..<4).map { world.seal(0, to: 1, [$0]) })
        let plan = ReceivePlan(capacity: 8)
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world) { node in
            node.engine.removePeer(world[0].publicKey)
        }
        #expect(delivered == [false, false, false, false])
        #expect(world[1].engine.statistics.packetsReceived == 1)
    }

    @Test("Nor is it when another peer has taken the place since")
    func replacementBetweenOpenAndCommit() {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch([world.seal(0, to: 1, [1])])
        let plan = ReceivePlan(capacity: 8)
        var random = SeededGenerator(seed: 9)
        let stranger = Identity(PrivateKey(using: &random)).publicKey
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world) { node in
            node.engine.removePeer(world[0].publicKey)
            node.engine.addPeer(stranger)
            for prefix in world[0].prefixes { node.engine.addAllowedIP(prefix, to: stranger) }
        }
        #expect(delivered == [false])
        #expect(world[1].snapshot(of: stranger)?.receivedBytes == 0)
        #expect(world[1].snapshot(of: stranger)?.endpoint == nil)
    }

    @Test("A pending message is not sent if the device went down, or up again, meanwhile", arguments: [false, true])
    func downBetweenOpenAndCommit(up: Bool) {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch([world.seal(0, to: 1, [1])])
        let plan = ReceivePlan(capacity: 8)
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world) { node in
            node.engine.setUp(false, at: world.now(node), wall: world.wall(node))
            if up { node.engine.setUp(true, at: world.now(node), wall: world.wall(node)) }
        }
        #expect(delivered == [false])
    }

    @Test("Packets planned for a removed peer can still be sealed, without harm")
    func removalBetweenPlanAndSeal() {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch((0..<3).map { world.packet(from: 0, to: 1, [$0]) })
        let plan = SendPlan()
        unsafe batch.withViews { views in
            unsafe world[0].engine.planSend(views, mtu: 1420, at: world.now(0), wall: world.wall(0), into: plan)
        }
        world[0].engine.removePeer(world[1].publicKey)
        let sealed = batch.seal(plan)
        #expect(sealed.count == 3)
        for datagram in sealed { world.transmit(datagram, from: world[0]) }
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == 3)
    }

    @Test("A peer that is removed and added again is greeted as new")
    func readded() {
        let world = EngineWorld()
        world.establish()
        world[0].engine.removePeer(world[1].publicKey)
        world.run(for: .seconds(1))
        world[0].engine.addPeer(world[1].publicKey)
        world[0].engine.setEndpoint(world[1].endpoint, of: world[1].publicKey)
        world[0].engine.addAllowedIP(world[1].prefixes[0], to: world[1].publicKey)
        #expect(flows(world, 0, 1))
    }

    @Test("Adding an existing peer changes nothing")
    func addedTwice() {
        let world = EngineWorld()
        world.establish()
        #expect(world[0].addPeer(world[1].publicKey))
        #expect(world[0].engine.peerCount == 1)
        #expect(flows(world, 0, 1))
        #expect(world.sent(0, .initiation).count == 1)
    }

    // MARK: Up and down

    @Test("A device that is down sends nothing and ignores what arrives")
    func down() {
        let world = EngineWorld()
        world.establish()
        world[1].engine.setUp(false, at: world.now(1), wall: world.wall(1))
        #expect(world[1].engine.indices.count == 0)
        #expect(world[1].engine.nextDeadline == nil)
        world.wire.drain()
        #expect(!flows(world, 0, 1, within: .seconds(30)))
        world.send(1, to: 0)
        world.run(for: .seconds(30))
        #expect(world.sent(1) { _ in true }.isEmpty)
        world[1].engine.setUp(true, at: world.now(1), wall: world.wall(1))
        // The other side repeats its initiation every five seconds meanwhile.
        world.run(for: .seconds(6))
        #expect(flows(world, 0, 1) && flows(world, 1, 0))
    }

    @Test("Ten thousand times up and down leaves nothing behind")
    func upDown() {
        let world = EngineWorld()
        world[0].engine.setPersistentKeepalive(25, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        for _ in 0..<10_000 {
            world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
            world.peer(0, of: 1)?.lastHandshakeSent = world.now(0)
            world[0].engine.setUp(true, at: world.now(0), wall: world.wall(0))
        }
        #expect(world[0].engine.indices.count <= 1)
        #expect(world[0].engine.drainQueue.isEmpty)
        #expect(world[0].engine.outbox.count <= 1)
        world.run(for: .seconds(6))
        #expect(flows(world, 0, 1))
    }

    // MARK: Allowed IPs

    @Test("Allowed IPs that move to another peer take the traffic with them, both ways")
    func allowedIPsMove() {
        let world = EngineWorld(3)
        world.establish(0, with: 1)
        world.establish(0, with: 2)
        let packet = world.packet(from: 0, to: 1, [1])
        world.send(packet, from: 0)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
        world[0].engine.addAllowedIP(world[1].prefixes[0], to: world[2].publicKey)
        #expect(world[0].peer(routing: world[1].innerV4) == world[2].publicKey)
        world.send(packet, from: 0)
        world.run(for: .seconds(1))
        // Host 2 gets it now; it comes from host 0's own address, so it is delivered.
        #expect(world[1].delivered == [packet])
        #expect(world[2].delivered == [packet])
        // And what host 1 sends from its own address is refused.
        world[0].delivered = []
        world.send(1, to: 0)
        world.run(for: .seconds(1))
        #expect(world[0].delivered.isEmpty)
        #expect(world[0].engine.statistics.disallowedSource == 1)
    }

    @Test("A packet whose source is not the sender's is dropped and counted; the session continues")
    func spoofed() {
        let world = EngineWorld(3)
        world.establish(0, with: 1)
        world.send(TestPacket.v4(from: world[2].innerV4, to: world[1].innerV4, payload: [1]), from: 0)
        world.send(TestPacket.v6(from: world[2].innerV6, to: world[1].innerV6, payload: [1]), from: 0)
        world.send(TestPacket.v4(from: 0x0808_0808, to: world[1].innerV4, payload: [1]), from: 0)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.isEmpty)
        #expect(world[1].engine.statistics.disallowedSource == 3)
        #expect(flows(world, 0, 1))
    }

    @Test("Packets of no version, or shorter than they say, are dropped and counted")
    func malformedInside() throws {
        let world = EngineWorld()
        world.establish()
        let keys = try #require(world.peer(0, of: 1)?.current?.keys)
        let good = world.packet(from: 0, to: 1, [1, 2, 3])
        var longer = good
        longer[3] = 100
        var version = good
        version[0] = 0x55
        var tiny = good
        tiny[0] = 0x41
        let inside: [[UInt8]] = [
            [0], [0x45], [0x60], Array(good.prefix(16)), longer, version, tiny, [UInt8](repeating: 0, count: 64),
        ]
        for (offset, packet) in inside.enumerated() {
            let datagram = Forge.data(packet, keys, counter: 100 + UInt64(offset))
            #expect(world.receive(datagram, from: world[0].endpoint, at: world[1]) == nil)
        }
        #expect(world[1].engine.statistics.malformedPackets == UInt64(inside.count))
        #expect(flows(world, 0, 1))
    }

    @Test("Padding with any bytes is removed before delivery")
    func padding() throws {
        let world = EngineWorld()
        world.establish()
        let keys = try #require(world.peer(0, of: 1)?.current?.keys)
        let good = world.packet(from: 0, to: 1, [1, 2, 3])
        let datagram = Forge.data(good + [UInt8](repeating: 0xff, count: 200), keys, counter: 50)
        #expect(world.receive(datagram, from: world[0].endpoint, at: world[1]) == good)
    }

    @Test("Packets without route or endpoint are counted and begin nothing")
    func noRoute() {
        let world = EngineWorld()
        world.send(TestPacket.v4(from: world[0].innerV4, to: 0x0909_0909, payload: []), from: 0)
        world.send([], from: 0)
        world.send([0x45, 0], from: 0)
        #expect(world[0].engine.statistics.noRoute == 2)
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        world.send(0, to: 1)
        #expect(world[0].engine.statistics.noEndpoint == 1)
        #expect(world.wire.count == 0)
        #expect(world[0].engine.nextDeadline == nil)
    }

    @Test("A batch to several peers is sealed for each, and keeps each one's order")
    func mixedBatch() {
        let world = EngineWorld(4)
        for other in 1...3 { world.establish(0, with: other) }
        var random = SeededGenerator(seed: 11)
        var expected: [[[UInt8]]] = [[], [], [], []]
        var packets: [[UInt8]] = []
        for number in 0..<128 {
            let target = random.int(in: 1...3)
            let packet = world.packet(from: 0, to: target, [UInt8(number)])
            if number % 17 == 3 {
                packets.append([])
            } else if number % 19 == 5 {
                packets.append(TestPacket.v4(from: 0, to: 0x0909_0909, payload: []))
            } else {
                packets.append(packet)
                expected[target].append(packet)
            }
        }
        let batch = TestBatch(packets)
        let plan = SendPlan()
        unsafe batch.withViews { views in
            unsafe world[0].engine.planSend(views, mtu: 1420, at: world.now(0), wall: world.wall(0), into: plan)
        }
        for datagram in batch.seal(plan) { world.transmit(datagram, from: world[0]) }
        world.run(for: .seconds(1))
        for target in 1...3 { #expect(world[target].delivered == expected[target]) }
        // Sealing does not change the packets.
        for (index, packet) in packets.enumerated() {
            #expect(batch.bytes(index, at: 0, count: packet.count + 64) == packet + [UInt8](repeating: 0xaa, count: 64))
        }
    }

    @Test("Snapshots contain the configuration and the counters")
    func snapshots() throws {
        let world = EngineWorld(preshared: true)
        world[0].engine.setPersistentKeepalive(25, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        #expect(world.snapshot(0, of: 1)?.lastHandshake == nil)
        #expect(world.snapshot(0, of: 1)?.hasSession == false)
        world.run(for: .seconds(1))
        let snapshot = try #require(world.snapshot(0, of: 1))
        #expect(snapshot.publicKey == world[1].publicKey)
        #expect(snapshot.presharedKey == world.presharedKey)
        #expect(snapshot.endpoint == world[1].endpoint)
        #expect(snapshot.persistentKeepalive == 25)
        #expect(Set(snapshot.allowedIPs) == Set(world[1].prefixes))
        #expect(snapshot.hasSession)
        #expect(snapshot.lastHandshake.map { $0.seconds == 1_700_000_000 } == true)
        var seen = 0
        world[0].engine.forEachPeer { _ in seen += 1 }
        #expect(seen == 1)
    }

    @Test("Bytes are counted as datagrams, with their headers, on both sides alike")
    func byteCounts() throws {
        let world = EngineWorld()
        world.send(0, to: 1, [UInt8](repeating: 0, count: 100))
        world.run(for: .seconds(60))
        let one = try #require(world.snapshot(0, of: 1))
        let other = try #require(world.snapshot(1, of: 0))
        // Initiation and a packet of 120 bytes, padded to 128; response and keepalive.
        #expect(one.sentBytes == 148 + 128 + 32)
        #expect(one.receivedBytes == 92 + 32)
        #expect(other.sentBytes == one.receivedBytes)
        #expect(other.receivedBytes == one.sentBytes)
        #expect(world[0].engine.statistics.packetsSent == 1)
        #expect(world[1].engine.statistics.packetsReceived == 1)
        #expect(world[0].engine.statistics.keepalivesReceived == 1)
        #expect(world[1].engine.statistics.packetsSent == 1)
    }

    @Test("A session at its last counter is not shown as one to send through")
    func snapshotOfUsedUp() {
        let world = EngineWorld()
        world.establish()
        world.peer(0, of: 1)?.current?.sendCounter = ReplayWindow.rejectAfterMessages
        #expect(world.snapshot(0, of: 1)?.hasSession == false)
    }
}

extension PrivateKey {
    var testBytes: [UInt8] { unsafe secret.withBytes { unsafe Array($0) } }
}

@Suite("Engine: order of peers")
struct PeerOrderTests {
    @Test("Peers are listed in the order of their addition, even if an equal set replaces them")
    func order() {
        var random = SeededGenerator(seed: 77)
        var engine = Engine(random: SeededGenerator(seed: 78))
        let keys = (0..<20).map { _ in PrivateKey(using: &random).publicKey }
        for _ in 0..<3 {
            engine.removeAllPeers()
            for key in keys { engine.addPeer(key) }
            #expect(engine.uapiState.peers.map(\.publicKey) == keys)
        }
    }
}
