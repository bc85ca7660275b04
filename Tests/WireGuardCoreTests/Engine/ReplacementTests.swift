// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: updates that replace the peers")
struct ReplacementTests {
    private static let now = Instant(nanoseconds: 3_600_000_000_000)
    private static let wall = WallTime(seconds: 1_700_000_000)

    private func network(_ number: Int) throws -> IPPrefix {
        try #require(IPPrefix(.v4(0x0b00_0000 + UInt32(number)), length: 32))
    }

    /// A replacement by new peers with one network each.
    private func replacement(_ count: Int, seed: UInt64) throws -> UAPIDeviceUpdate {
        var random = SeededGenerator(seed: seed)
        var update = UAPIDeviceUpdate()
        update.replacePeers = true
        update.peers = try (0..<count).map { number in
            var peer = UAPIPeerUpdate(publicKey: try #require(PublicKey(bytes: random.bytes(32))))
            peer.allowedIPs = [.add(try network(number))]
            return peer
        }
        return update
    }

    /// The settings of a host of a world as a peer of the other host.
    private func peer(_ node: Node) -> UAPIPeerUpdate {
        var peer = UAPIPeerUpdate(publicKey: node.publicKey)
        peer.replaceAllowedIPs = true
        peer.allowedIPs = node.prefixes.map { .add($0) }
        return peer
    }

    /// Applies an update in pieces.
    private func apply(
        _ update: UAPIDeviceUpdate, at node: Node, in world: EngineWorld, work: Int = 10, between: () -> Void = {}
    ) {
        var progress = UpdateProgress(mostWhole: 0)
        while node.engine.apply(update, &progress, work: work, at: world.now(node), wall: world.wall(node)) {
            progress.buildTable(of: update)
            between()
        }
    }

    @Test("A peer that stays has its session at any moment: no packet is lost and no handshake is sent")
    func session() throws {
        let world = EngineWorld()
        world.establish()
        var update = try replacement(60, seed: 1)
        // The peer is neither the first nor the last, and the update names no endpoint.
        update.peers.insert(peer(world[1]), at: 30)
        var sent = 0
        let before = try #require(world.snapshot(0, of: 1))
        for _ in 0..<2 {
            apply(update, at: world[0], in: world) {
                world.send(0, to: 1)
                world.send(1, to: 0)
                world.run(for: .milliseconds(20))
                sent += 1
                #expect(world[1].delivered.count == sent && world[0].delivered.count == sent)
            }
        }
        let after = try #require(world.snapshot(0, of: 1))
        #expect(sent >= 20 && world[0].peerCount == 61)
        #expect(world.sent(0, .initiation).count == 1)
        #expect(after.endpoint == before.endpoint && after.lastHandshake == before.lastHandshake)
        #expect(after.receivedBytes > before.receivedBytes)
    }

    @Test("Packets have their former peers until the table is complete, and the new ones from then on")
    func routes() throws {
        let world = EngineWorld()
        let node = world[0]
        let count = 40
        var former = try replacement(count, seed: 2)
        former.peers[0].allowedIPs = [.add(try #require(IPPrefix(.v4(0), length: 0)))]
        node.engine.apply(former, at: world.now(0), wall: world.wall(0))
        // The peers exchange their networks, every second one is new, and the widest network moves too.
        var update = former
        let others = try replacement(count, seed: 3)
        for number in 0..<count {
            update.peers[number].allowedIPs = former.peers[count - 1 - number].allowedIPs
            if number % 2 == 1 { update.peers[number].publicKey = others.peers[number].publicKey }
        }
        func owners() -> [PublicKey?] { (0..<count).map { node.peer(routing: 0x0b00_0000 + UInt32($0)) } }
        let before = owners()
        #expect(before == former.peers.map(\.publicKey))
        var seen: [[PublicKey?]] = []
        apply(update, at: node, in: world) { seen.append(owners()) }
        let after = owners()
        #expect(after == update.peers.reversed().map(\.publicKey))
        #expect(seen.allSatisfy { $0 == before || $0 == after } && seen.contains(before) && seen.contains(after))
        #expect(node.peerCount == count)
    }

    @Test(
        "A packet that waits for a session is not sent to its former peer after its network moved to another peer",
        arguments: [true, false])
    func waitingPacket(isReplacement: Bool) {
        let world = EngineWorld(3)
        world.send(0, to: 1)
        var update = UAPIDeviceUpdate()
        update.replacePeers = isReplacement
        update.peers = [peer(world[1]), peer(world[2])]
        update.peers[1].allowedIPs += update.peers[0].allowedIPs
        update.peers[0].allowedIPs = []
        apply(update, at: world[0], in: world)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.isEmpty && world[2].delivered.isEmpty)
        #expect(world[0].engine.statistics.stagedAbandoned == 1)
        #expect(world[0].engine.stagedBytes == 0)
        // A keepalive proves the session's keys to the peer in place of the packet.
        #expect(world.keepalives(0).count == 1)
        #expect(world.snapshot(1, of: 0)?.hasSession == true)
    }

    @Test("Another own key, another pre-shared key, and a removal end the session of a peer that stays")
    func ends() throws {
        var random = SeededGenerator(seed: 4)
        let presharedKey = PresharedKey(using: &random)
        for change in 0..<5 {
            let world = EngineWorld()
            world.establish()
            var update = UAPIDeviceUpdate()
            update.replacePeers = true
            update.privateKey = .set(world[0].privateKey)
            update.peers = [peer(world[1])]
            switch change {
            case 0: update.privateKey = .set(PrivateKey(using: &random))
            case 1: update.privateKey = .clear
            case 2: update.peers[0].presharedKey = .set(presharedKey)
            case 3:
                var removal = UAPIPeerUpdate(publicKey: world[1].publicKey)
                removal.remove = true
                update.peers = [peer(world[1]), removal, peer(world[1])]
            default: update.peers[0].presharedKey = .clear
            }
            let timestamp = world.peer(0, of: 1)?.lastSentTimestamp
            apply(update, at: world[0], in: world, work: 1)
            let after = try #require(world.snapshot(0, of: 1))
            #expect(after.hasSession == (change == 4), "change \(change)")
            #expect((after.lastHandshake == nil) == (change != 4))
            // A peer that is removed and added again has no endpoint and no counters of before.
            #expect((after.endpoint == nil) == (change == 3))
            #expect((after.sentBytes == 0 && after.receivedBytes == 0) == (change == 3))
            #expect(timestamp != nil && world.peer(0, of: 1)?.lastSentTimestamp == timestamp)
            #expect(after.allowedIPs == world[1].prefixes)
        }
    }

    @Test("The session with a pre-shared key continues if the update has the same key, and ends if it has none")
    func presharedKey() throws {
        for isNamed in [true, false] {
            let world = EngineWorld(preshared: true)
            world.establish()
            var update = UAPIDeviceUpdate()
            update.replacePeers = true
            update.peers = [peer(world[1])]
            if isNamed { update.peers[0].presharedKey = .set(try #require(world.presharedKey)) }
            apply(update, at: world[0], in: world)
            #expect(world.snapshot(0, of: 1)?.hasSession == isNamed)
            #expect((world.peer(0, of: 1)?.presharedKey != nil) == isNamed)
        }
    }

    @Test("After another own key, the peer's next session begins with the new key")
    func newIdentity() throws {
        let world = EngineWorld()
        world.establish()
        var random = SeededGenerator(seed: 5)
        let key = PrivateKey(using: &random)
        var update = UAPIDeviceUpdate()
        update.replacePeers = true
        update.privateKey = .set(key)
        update.peers = [peer(world[1])]
        apply(update, at: world[0], in: world, work: 1)
        var other = UAPIDeviceUpdate()
        other.replacePeers = true
        other.peers = [peer(world[0])]
        other.peers[0].publicKey = Identity(key).publicKey
        apply(other, at: world[1], in: world, work: 1)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == 1)
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
    }

    @Test(
        "A handshake with the device's new key succeeds before the peer's turn in a long replacement",
        arguments: [0, 1])
    func newIdentityInPieces(initiator: Int) throws {
        let world = EngineWorld()
        world.establish()
        // The session has expired, but the device still has the DH of its former key.
        world.run(for: .seconds(200))
        var random = SeededGenerator(seed: 6)
        let key = PrivateKey(using: &random)
        var other = UAPIDeviceUpdate()
        other.replacePeers = true
        other.peers = [peer(world[0])]
        other.peers[0].publicKey = Identity(key).publicKey
        other.peers[0].endpoint = world[0].endpoint
        apply(other, at: world[1], in: world, work: 1)
        var update = try replacement(60, seed: 6)
        update.privateKey = .set(key)
        update.peers.append(peer(world[1]))
        let rejected = world.nodes.map { $0.engine.statistics.rejectedHandshakes }
        var hasBegun = false
        apply(update, at: world[0], in: world) {
            guard !hasBegun else { return }
            hasBegun = true
            world.send(initiator, to: 1 - initiator)
            world.run(for: .seconds(1))
            #expect(world[1 - initiator].delivered.count == 1)
        }
        #expect(hasBegun && world[0].peerCount == 61)
        #expect(world.nodes.map { $0.engine.statistics.rejectedHandshakes } == rejected)
        // The session with the new key outlives the peer's turn.
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        world.send(0, to: 1)
        world.send(1, to: 0)
        world.run(for: .seconds(1))
        #expect(world[initiator].delivered.count == 1 && world[1 - initiator].delivered.count == 2)
    }

    @Test("A peer whose key becomes the device's own is removed")
    func ownKey() {
        let world = EngineWorld()
        var update = UAPIDeviceUpdate()
        update.replacePeers = true
        update.privateKey = .set(world[1].privateKey)
        update.peers = [peer(world[1])]
        apply(update, at: world[0], in: world, work: 1)
        #expect(world[0].peerCount == 0 && world[0].peer(routing: world[1].innerV4) == nil)
    }

    @Test(
        "A replacement with the present interval does not postpone a keepalive, and one without an interval ends them")
    func keepalive() {
        let world = EngineWorld()
        var update = UAPIDeviceUpdate()
        update.replacePeers = true
        update.peers = [peer(world[1])]
        update.peers[0].endpoint = world[1].endpoint
        update.peers[0].persistentKeepalive = 25
        for _ in 0..<10 {
            apply(update, at: world[0], in: world)
            world.run(for: .seconds(10))
        }
        let sent = world.keepalives(0).count
        #expect(sent >= 3)
        update.peers[0].persistentKeepalive = nil
        apply(update, at: world[0], in: world)
        world.run(for: .seconds(100))
        #expect(world.keepalives(0).count == sent && world.snapshot(0, of: 1)?.persistentKeepalive == 0)
    }

    @Test("A replacement has the same result in an engine with peers as in an empty one", arguments: 0..<60)
    func sameAsFresh(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let keys = (0..<9).map { _ in PrivateKey(using: &random) }
        var limits = EngineLimits()
        limits.peers = 7
        limits.allowedIPs = 24
        func engine() -> Node {
            let endpoint = Endpoint(address: .v4(1), port: 1)
            let node = Node(index: 0, privateKey: keys[0], endpoint: endpoint, seed: 1, limits: limits)
            node.engine.setPrivateKey(keys[0])
            return node
        }
        let used = engine()
        for _ in 0..<20 {
            var update = UAPIDeviceUpdate()
            update.replacePeers = true
            for _ in 0..<random.int(in: 0..<9) {
                var peer = UAPIPeerUpdate(publicKey: keys[random.int(in: 0..<keys.count)].publicKey)
                peer.remove = random.int(in: 0..<5) == 0
                peer.updateOnly = random.int(in: 0..<5) == 0
                peer.replaceAllowedIPs = random.int(in: 0..<3) == 0
                if random.int(in: 0..<3) == 0 { peer.presharedKey = .set(PresharedKey(using: &random)) }
                // Without one, a peer that stays keeps its endpoint.
                peer.endpoint = Endpoint(address: .v4(UInt32(random.int(in: 1..<9))), port: 9)
                if random.int(in: 0..<3) == 0 { peer.persistentKeepalive = UInt16(random.int(in: 0..<3)) }
                for _ in 0..<random.int(in: 0..<6) {
                    let prefix = try network(random.int(in: 0..<20))
                    peer.allowedIPs.append(random.int(in: 0..<4) == 0 ? .remove(prefix) : .add(prefix))
                }
                update.peers.append(peer)
            }
            let fresh = engine()
            for node in [used, fresh] {
                var progress = UpdateProgress(mostWhole: 0)
                let work = random.int(in: 1...9)
                while node.engine.apply(update, &progress, work: work, at: Self.now, wall: Self.wall) {}
            }
            func settings(_ node: Node) -> [[UInt8]] {
                let texts = node.engine.uapiState.peers.map { peer in
                    var text: [UInt8] = []
                    peer.append(to: &text)
                    return text
                }
                return texts.sorted { $0.lexicographicallyPrecedes($1) }
            }
            #expect(settings(used) == settings(fresh))
        }
    }

    @Test("New peers are listed in the order of the update, after any number of replacements")
    func order() throws {
        let world = EngineWorld(1)
        for seed in 0..<5 as Range<UInt64> {
            let update = try replacement(50, seed: 20 + seed)
            apply(update, at: world[0], in: world)
            let listed = world[0].engine.uapiState.peers.map(\.publicKey)
            #expect(listed == update.peers.map(\.publicKey))
        }
    }
}
