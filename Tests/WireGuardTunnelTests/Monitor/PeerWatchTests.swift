// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import WireGuardTunnel

@Suite("Answers that peers owe")
struct PeerWatchTests {
    private static let keys: [PublicKey] = {
        var random = SeededGenerator(seed: 3)
        return (0..<2).map { _ in PrivateKey(using: &random).publicKey }
    }()
    private static let patience: Duration = .seconds(60)

    /// Two peers that are checked every ten seconds.
    private struct Scene {
        var watch = PeerWatch()
        var now: Duration = .zero
        var peers = PeerWatchTests.keys.map { DataPlanePeer(publicKey: $0, endpoint: nil) }
        var keepalive: UInt16 = 0

        init() { watch.update(with: peers, now: now) { _ in 0 } }

        mutating func look() {
            now += .seconds(10)
            let keepalive = keepalive
            watch.update(with: peers, now: now) { _ in keepalive }
        }

        func isSilent(_ index: Int) -> Bool {
            watch.isSilent(PeerWatchTests.keys[index], now: now, patience: PeerWatchTests.patience)
        }
    }

    @Test("A peer that does not answer is silent after a while, even if the other sends")
    func silent() {
        var scene = Scene()
        scene.peers[0].sentBytes += 128
        for _ in 0..<7 {
            scene.peers[1].sentBytes += 128
            scene.peers[1].receivedBytes += 128
            #expect(!scene.isSilent(0))
            scene.look()
        }
        #expect(scene.isSilent(0))
        #expect(!scene.isSilent(1))
        scene.peers[0].receivedBytes += 32
        scene.look()
        #expect(!scene.isSilent(0), "an answer ends it")
    }

    @Test("A peer that is sent nothing, or only keepalives, owes no answer", arguments: [0, 5, 25] as [UInt16])
    func keepalives(seconds: UInt16) {
        var scene = Scene()
        scene.keepalive = seconds
        for _ in 0..<60 {
            if seconds > 0 { scene.peers[0].sentBytes += UInt64(10 / min(seconds, 10)) * 32 }
            // The peer answers their data with a keepalive, and then owes nothing.
            scene.look()
        }
        #expect(!scene.isSilent(0))
        #expect(!scene.isSilent(1))
    }

    @Test("A pause clears owed answers, and keeps when each peer was last heard")
    func pauses() {
        var scene = Scene()
        scene.peers[0].sentBytes += 128
        for _ in 0..<4 { scene.look() }
        scene.watch.forget()
        for _ in 0..<4 { scene.look() }
        #expect(!scene.isSilent(0))
        scene.peers[1].receivedBytes += 1
        scene.look()
        #expect(scene.watch.wasHeard(Self.keys[1], within: .seconds(5), now: scene.now))
        #expect(!scene.watch.wasHeard(Self.keys[0], within: .seconds(5), now: scene.now))
    }
}
