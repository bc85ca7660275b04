// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: updates in pieces")
struct UpdateInPiecesTests {
    private static let now = Instant(nanoseconds: 3_600_000_000_000)
    private static let wall = WallTime(seconds: 1_700_000_000)

    /// An engine that is up. Macros copy their operands, and an engine cannot be copied.
    private final class Holder {
        var engine: Engine

        init(peers: Int = .max, allowedIPs: Int = .max) {
            var limits = EngineLimits()
            limits.peers = peers
            limits.allowedIPs = allowedIPs
            engine = Engine(random: SeededGenerator(seed: 1), limits: limits)
            engine.setUp(true, at: now, wall: wall)
        }

        var peerCount: Int { engine.peerCount }
        var networkCount: Int { engine.allowedIPs.count }
        var state: UAPIDeviceState { engine.uapiState }
        var nextDeadline: Instant? { engine.nextDeadline }
        var isTableGrowing: Bool { engine.allowedIPs.isGrowing }

        func owner(of address: UInt32) -> PublicKey? { engine.peer(routing: IPAddress.v4(address)) }

        /// Applies an update in pieces, or as a whole if its work is at most `mostWhole`.
        func apply(_ update: UAPIDeviceUpdate, work: Int, mostWhole: Int = 0, between: () -> Void = {}) {
            var progress = UpdateProgress(mostWhole: mostWhole)
            while engine.apply(update, &progress, work: work, at: now, wall: wall) { between() }
        }

        /// The result of the check of an update; `nil` if it stays within the limits.
        func refusal(of update: UAPIDeviceUpdate, work: Int) -> EngineLimitError? {
            do throws(EngineLimitError) {
                var check = LimitCheck(of: update)
                while try engine.checkLimits(of: update, &check, work: work) {}
                return nil
            } catch {
                return error
            }
        }
    }

    private func network(_ number: Int, length: Int = 32) throws -> IPPrefix {
        try #require(IPPrefix(.v4(UInt32(number)), length: length))
    }

    /// An update that adds peers with two networks each, in the order of their numbers.
    private func addition(_ count: Int, seed: UInt64, firstNetwork: Int = 0x0a00_0000) throws -> UAPIDeviceUpdate {
        var random = SeededGenerator(seed: seed)
        var update = UAPIDeviceUpdate()
        update.peers = try (0..<count).map { number in
            var peer = UAPIPeerUpdate(publicKey: try #require(PublicKey(bytes: random.bytes(32))))
            let first = firstNetwork + 2 * number
            peer.allowedIPs = [.add(try network(first)), .add(try network(first + 1))]
            return peer
        }
        return update
    }

    private func randomUpdate(_ keys: [PrivateKey], _ random: inout SeededGenerator) throws -> UAPIDeviceUpdate {
        var update = UAPIDeviceUpdate()
        update.replacePeers = random.int(in: 0..<6) == 0
        switch random.int(in: 0..<10) {
        case 0: update.privateKey = .set(keys[random.int(in: 0..<keys.count)])
        case 1: update.privateKey = .clear
        default: break
        }
        for _ in 0..<random.int(in: 0..<6) {
            var peer = UAPIPeerUpdate(publicKey: keys[random.int(in: 0..<keys.count)].publicKey)
            peer.remove = random.int(in: 0..<4) == 0
            peer.updateOnly = random.int(in: 0..<6) == 0
            peer.replaceAllowedIPs = random.int(in: 0..<3) == 0
            if random.int(in: 0..<3) == 0 { peer.presharedKey = .set(PresharedKey(using: &random)) }
            if random.int(in: 0..<3) == 0 { peer.endpoint = Endpoint(address: .v4(0xc000_0201), port: 51_820) }
            if random.int(in: 0..<3) == 0 { peer.persistentKeepalive = UInt16(random.int(in: 0..<3)) }
            for _ in 0..<random.int(in: 0..<9) {
                let prefix = try network(random.int(in: 0..<40) << 8, length: random.int(in: 24...25))
                peer.allowedIPs.append(random.int(in: 0..<4) == 0 ? .remove(prefix) : .add(prefix))
            }
            update.peers.append(peer)
        }
        return update
    }

    @Test("An update has the same result in pieces of any size and as a whole", arguments: 0..<60)
    func anySize(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let keys = (0..<9).map { _ in PrivateKey(using: &random) }
        let (whole, pieces) = (Holder(peers: 7, allowedIPs: 24), Holder(peers: 7, allowedIPs: 24))
        for _ in 0..<40 {
            let update = try randomUpdate(keys, &random)
            let work = random.int(in: 1...9)
            let refusal = whole.refusal(of: update, work: .max)
            #expect(pieces.refusal(of: update, work: work) == refusal)
            guard refusal == nil else { continue }
            whole.apply(update, work: .max)
            pieces.apply(update, work: work)
            #expect(pieces.state == whole.state)
            #expect(pieces.networkCount == whole.networkCount)
            #expect(pieces.nextDeadline == whole.nextDeadline)
        }
    }

    @Test(
        "No piece of an update of ten thousand peers does more than its share, and a replacement adds and removes in pieces"
    )
    func bounded() throws {
        let work = 128
        let holder = Holder()
        var (pieces, last) = (0, 0)
        func check(_ now: Int) {
            pieces += 1
            #expect((now - last).magnitude <= work)
            last = now
        }
        holder.apply(try addition(10_000, seed: 1), work: work) { check(holder.peerCount + holder.networkCount) }
        check(holder.peerCount + holder.networkCount)
        #expect(last == 30_000 && pieces >= 30_000 / work)

        var replacement = try addition(10_000, seed: 2)
        replacement.replacePeers = true
        (pieces, last) = (0, holder.peerCount)
        var most = last
        holder.apply(replacement, work: work) {
            most = max(most, holder.peerCount)
            check(holder.peerCount)
        }
        check(holder.peerCount)
        #expect(most == 20_000 && last == 10_000 && pieces >= 30_000 / work)
        #expect(holder.networkCount == 20_000)
    }

    @Test("The networks of one peer are removed and added in pieces, and replaced in one", arguments: [false, true])
    func manyNetworks(isRemoval: Bool) throws {
        let holder = Holder()
        var update = try addition(2, seed: 3)
        update.peers[0].allowedIPs = try (0..<5_000).map { .add(try network(0x0b00_0000 + $0)) }
        var (pieces, last) = (0, 0)
        func check() {
            pieces += 1
            #expect((holder.networkCount - last).magnitude <= 100)
            last = holder.networkCount
        }
        holder.apply(update, work: 100) { check() }
        #expect(pieces >= 50)
        update.peers[0].remove = isRemoval
        update.peers[0].replaceAllowedIPs = true
        update.peers[0].allowedIPs = [.add(try network(0x0c00_0000))]
        (pieces, last) = (0, holder.networkCount)
        if isRemoval {
            holder.apply(update, work: 100) { check() }
            #expect(pieces >= 49)
        } else {
            holder.apply(update, work: 100) {
                pieces += 1
                #expect(holder.networkCount == 3)
            }
            #expect(pieces == 1)
        }
        #expect(holder.peerCount == (isRemoval ? 1 : 2))
        #expect(holder.networkCount == (isRemoval ? 2 : 3))
    }

    /// The first peer of the update gets everything that no other peer gets.
    private func giveRest(_ update: inout UAPIDeviceUpdate) throws {
        update.peers[0].allowedIPs = [.add(try network(0, length: 0))]
    }

    @Test(
        "Between the pieces of new lists of networks, each address has its old or its new peer, never a wider network's",
        arguments: [1, 2, 3, 5, 128], [false, true])
    func peersReplaceNetworks(work: Int, isReplacement: Bool) throws {
        let holder = Holder()
        let (count, base) = (200, UInt32(0x0a00_0000))
        var update = try addition(count, seed: 7)
        try giveRest(&update)
        holder.apply(update, work: .max)
        let keys = update.peers.map(\.publicKey)
        // Each peer keeps its second network and gets the first one of the peer after it.
        for number in 1..<count {
            let first = 0x0a00_0000 + 2 * number
            update.peers[number].replaceAllowedIPs = isReplacement
            update.peers[number].allowedIPs = [
                .add(try network(first + 2)), .add(try network(first + 1)),
            ]
            if !isReplacement {
                // The peer loses its second network and gets it back.
                update.peers[number].allowedIPs.insert(.remove(try network(first + 1)), at: 0)
            }
        }
        var (pieces, others) = (0, 0)
        holder.apply(update, work: work) {
            pieces += 1
            for number in 2..<count {
                let address = base + 2 * UInt32(number)
                let owner = holder.owner(of: address)
                if owner != keys[number], owner != keys[number - 1] { others += 1 }
                if holder.owner(of: address + 1) != keys[number] { others += 1 }
            }
        }
        #expect(others == 0 && pieces >= 3)
        for number in 2..<count {
            #expect(holder.owner(of: base + 2 * UInt32(number)) == keys[number - 1])
            #expect(holder.owner(of: base + 2 * UInt32(number) + 1) == keys[number])
        }
        #expect(holder.owner(of: base + 2 * UInt32(count)) == keys[count - 1])
    }

    @Test("A network that an update gives to another peer moves in one step", arguments: [1, 2, 3, 128])
    func moves(work: Int) throws {
        let holder = Holder()
        let count = 200
        var update = try addition(count, seed: 8)
        try giveRest(&update)
        holder.apply(update, work: .max)
        let keys = update.peers.map(\.publicKey)
        // The lists of the last and of the first peer are exchanged, and so on.
        let lists = update.peers[1...].map(\.allowedIPs)
        for number in 1..<count { update.peers[number].allowedIPs = lists[count - 1 - number] }
        var (pieces, others) = (0, 0)
        holder.apply(update, work: work) {
            pieces += 1
            for number in 1..<count {
                let owner = holder.owner(of: 0x0a00_0000 + 2 * UInt32(number))
                if owner != keys[number], owner != keys[count - number] { others += 1 }
            }
        }
        #expect(others == 0 && pieces >= 4)
        for number in 1..<count {
            #expect(holder.owner(of: 0x0a00_0000 + 2 * UInt32(number)) == keys[count - number])
        }
    }

    @Test("A replacement of ordinary size is one piece, and so is another update of that size")
    func small() throws {
        let holder = Holder()
        var pauses = 0
        var update = try addition(100, seed: 9)
        update.replacePeers = true
        for _ in 0..<3 { holder.apply(update, work: 10, mostWhole: 400) { pauses += 1 } }
        update.replacePeers = false
        for number in 0..<100 { update.peers[number].replaceAllowedIPs = true }
        holder.apply(update, work: 10, mostWhole: 500) { pauses += 1 }
        for number in 0..<100 { update.peers[number].remove = true }
        holder.apply(update, work: 10, mostWhole: 500) { pauses += 1 }
        #expect(pauses == 0 && holder.peerCount == 0 && holder.networkCount == 0)

        var progress = UpdateProgress()
        let mostWhole = progress.mostWhole
        #expect(mostWhole == 1_000)
        update = try addition(334, seed: 10)
        let hasMore = holder.engine.apply(update, &progress, work: 10, at: Self.now, wall: Self.wall)
        #expect(hasMore && holder.peerCount < 10)
    }

    @Test("An update ends when the table of allowed IPs has completed its growth", arguments: [false, true])
    func growth(isReplacement: Bool) throws {
        let holder = Holder()
        // The table has just begun another directory when it has all networks.
        var update = try addition(4_100, seed: 11)
        update.replacePeers = isReplacement
        var pieces = 0
        var isGrowing = false
        holder.apply(update, work: 128) {
            pieces += 1
            isGrowing = isGrowing || holder.isTableGrowing
        }
        #expect(isGrowing == !isReplacement)
        #expect(!holder.isTableGrowing && holder.networkCount == 8_200)
        #expect(pieces > (isReplacement ? 64 : 96 + 8))
        // A single network begins no growth.
        let single = try network(0x0b00_0000)
        holder.engine.addAllowedIP(single, to: update.peers[0].publicKey)
        #expect(!holder.isTableGrowing && holder.owner(of: 0x0b00_0000) == update.peers[0].publicKey)
    }

    @Test("Other peers' sessions carry packets between the pieces of an update")
    func sessions() throws {
        let world = EngineWorld()
        world.establish()
        let update = try addition(100, seed: 5, firstNetwork: 0x0b00_0000)
        var progress = UpdateProgress(mostWhole: 0)
        var sent = 0
        while world[0].engine.apply(update, &progress, work: 30, at: world.now(0), wall: world.wall(0)) {
            world.send(0, to: 1)
            world.run(for: .milliseconds(100))
            sent += 1
            #expect(world[1].delivered.count >= sent)
        }
        #expect(sent == 9)
        #expect(world.sent(0, .initiation).count == 1)
    }

    @Test("A replayed initiation is refused while its peer is replaced in pieces, and afterwards")
    func replay() throws {
        let world = EngineWorld()
        world.establish()
        let initiation = try #require(world.sent(0, .initiation).first?.message)
        var update = try addition(20, seed: 6)
        update.replacePeers = true
        update.peers.append(UAPIPeerUpdate(publicKey: world[0].publicKey))
        var progress = UpdateProgress(mostWhole: 0)
        while world[1].engine.apply(update, &progress, work: 1, at: world.now(1), wall: world.wall(1)) {
            world.arrive(initiation)
        }
        world.arrive(initiation)
        #expect(world.peer(1, of: 0) != nil)
        #expect(world[1].engine.statistics.responsesSent == 1)
    }

    @Test("The waiting packets of a removed peer are not sent, and the next peer in its slot sends its own once")
    func slotInDrainQueue() throws {
        let world = EngineWorld(3)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        let peer = try #require(world.peer(0, of: 1))
        let before = world.sent(0) { _ in true }.count
        world[0].engine.stage(Array(repeating: 0x45, count: 40), for: peer)
        world[0].engine.flushStaged(of: peer, at: world.now(0), wall: world.wall(0))
        let waitsBefore = world[0].engine.hasPending
        world[0].engine.removePeer(world[1].publicKey)
        let added = world[0].addPeer(world[1].publicKey)
        #expect(waitsBefore && added)
        #expect(world.peer(0, of: 1)?.slot == peer.slot)
        world.run(for: .seconds(1))
        let waitsAfter = world[0].engine.hasPending
        #expect(!waitsAfter)
        #expect(world.sent(0) { _ in true }.count == before)
        for prefix in world[1].prefixes { world[0].engine.addAllowedIP(prefix, to: world[1].publicKey) }
        world[0].engine.setEndpoint(world[1].endpoint, of: world[1].publicKey)
        let delivered = world[1].delivered.count
        world.run(for: .seconds(6))
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == delivered + 1)
    }
}
