// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: limits of configuration")
struct EngineLimitsTests {
    private let now = Instant(nanoseconds: 1)
    private let wall = WallTime(seconds: 1)

    private func engine(peers: Int, allowedIPs: Int) -> Engine {
        var limits = EngineLimits()
        limits.peers = peers
        limits.allowedIPs = allowedIPs
        return Engine(random: SeededGenerator(seed: 1), limits: limits)
    }

    private func change(_ number: Int) throws -> AllowedIPChange {
        .add(try #require(IPPrefix(.v4(UInt32(number)), length: 32)))
    }

    @Test("An accepted update is applied whole, and a refused one would have exceeded the bounds", arguments: 0..<200)
    func randomUpdates(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var engine = engine(peers: 6, allowedIPs: 20)
        let privateKeys = (0..<9).map { _ in PrivateKey(using: &random) }
        let keys = privateKeys.map(\.publicKey)
        for _ in 0..<40 {
            var update = UAPIDeviceUpdate()
            switch UInt8.random(in: 0..<12, using: &random) {
            case 0..<4: update.privateKey = .set(privateKeys.randomElement(using: &random) ?? privateKeys[0])
            case 4: update.privateKey = .clear
            default: break
            }
            update.replacePeers = UInt8.random(in: 0..<12, using: &random) == 0
            for _ in 0..<Int.random(in: 0..<6, using: &random) {
                var peer = UAPIPeerUpdate(publicKey: keys.randomElement(using: &random) ?? keys[0])
                peer.remove = UInt8.random(in: 0..<4, using: &random) == 0
                peer.updateOnly = UInt8.random(in: 0..<6, using: &random) == 0
                peer.replaceAllowedIPs = UInt8.random(in: 0..<3, using: &random) == 0
                for _ in 0..<Int.random(in: 0..<7, using: &random) {
                    let change = try change(Int.random(in: 0..<40, using: &random))
                    if case .add(let network) = change, Bool.random(using: &random), Bool.random(using: &random) {
                        peer.allowedIPs.append(.remove(network))
                    } else {
                        peer.allowedIPs.append(change)
                    }
                }
                update.peers.append(peer)
            }
            // An engine without bounds shows the result.
            var free = self.engine(peers: 100, allowedIPs: 1_000)
            free.setPrivateKey(engine.privateKey)
            engine.forEachPeer { peer in
                free.addPeer(peer.publicKey)
                for network in peer.allowedIPs { free.addAllowedIP(network, to: peer.publicKey) }
            }
            free.apply(update, at: now, wall: wall)
            do throws(EngineLimitError) {
                try engine.checkLimits(of: update)
                engine.apply(update, at: now, wall: wall)
                #expect(engine.peerCount == free.peerCount && engine.allowedIPs.count == free.allowedIPs.count)
            } catch {
                // The check counts intermediate entries too, and never less than the final number.
                #expect(engine.peerCount <= 6 && engine.allowedIPs.count <= 20)
            }
            #expect(engine.peerCount <= 6 && engine.allowedIPs.count <= 20)
        }
    }

    @Test("An update that changes the device's key is counted with the new key as the one that cannot be a peer")
    func ownKey() throws {
        var random = SeededGenerator(seed: 4)
        let keys = (0..<4).map { _ in PrivateKey(using: &random) }
        func update(key: Int, peer: Int) -> UAPIDeviceUpdate {
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(keys[key])
            update.peers = [UAPIPeerUpdate(publicKey: keys[peer].publicKey)]
            return update
        }
        var engine = engine(peers: 2, allowedIPs: 2)
        engine.setPrivateKey(keys[0])
        engine.addPeer(keys[1].publicKey)
        engine.addPeer(keys[2].publicKey)
        // The former key of the device is a third peer.
        #expect(throws: EngineLimitError.tooManyPeers(count: 3, limit: 2)) {
            try engine.checkLimits(of: update(key: 3, peer: 0))
        }
        // The peer that has the new key leaves room.
        let accepted = update(key: 1, peer: 3)
        try engine.checkLimits(of: accepted)
        engine.apply(accepted, at: now, wall: wall)
        let present = (1...3).map { engine.hasPeer(keys[$0].publicKey) }
        #expect(present == [false, true, true])
    }

    @Test("The bounds hold for single changes as well")
    func single() {
        var random = SeededGenerator(seed: 3)
        var engine = engine(peers: 2, allowedIPs: 2)
        let keys = (0..<3).map { _ in PrivateKey(using: &random).publicKey }
        let added = keys.map { engine.addPeer($0) }
        #expect(added == [true, true, false])
        let again = engine.addPeer(keys[0])
        #expect(again)
        let networks = (1...3).compactMap { IPPrefix(.v4(UInt32($0)), length: 32) }
        let given = networks.map { engine.addAllowedIP($0, to: keys[0]) }
        #expect(given == [true, true, false])
        // A network may still move.
        let moved = engine.addAllowedIP(networks[0], to: keys[1])
        #expect(moved)
        #expect(engine.peer(routing: IPAddress.v4(1)) == keys[1])
    }

    @Test("An update is refused with the count that is too much and the bound")
    func message() throws {
        var random = SeededGenerator(seed: 3)
        let engine = engine(peers: 1, allowedIPs: 1)
        var update = UAPIDeviceUpdate()
        update.peers = (0..<2).map { _ in UAPIPeerUpdate(publicKey: PrivateKey(using: &random).publicKey) }
        #expect(throws: EngineLimitError.tooManyPeers(count: 2, limit: 1)) { try engine.checkLimits(of: update) }
        update.peers.removeLast()
        update.peers[0].allowedIPs = [try change(1), try change(2)]
        #expect(throws: EngineLimitError.tooManyAllowedIPs(count: 2, limit: 1)) { try engine.checkLimits(of: update) }
        #expect(
            "\(EngineLimitError.tooManyAllowedIPs(count: 2, limit: 1))".contains("2 allowed IPs are more than the 1"))
    }
}
