// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import WireGuardTunnel

/// A reload of a tunnel with 20,000 peers used to wait until a handshake with each was computed, which took longer than the
/// caller waited.
@Suite("A tunnel with more peers than handshakes are requested at a time")
struct ManyPeersTests {
    private static let group = WireGuardTunnelProvider.handshakesAtATime
    private static let count = 3 * group + 1

    private static func scene() -> VirtualScene {
        VirtualScene { configuration in
            var random = SeededGenerator(seed: 12)
            for number in 1..<count {
                configuration.peers.append(
                    .init(
                        publicKey: PrivateKey(using: &random).publicKey,
                        allowedIPs: [IPPrefix(host: .v4(10, 1, UInt8(number >> 8), UInt8(number & 0xff)))],
                        endpoint: "198.51.100.2:\(1024 + number)"))
            }
        }
    }

    /// The number of peers with which a handshake was requested.
    private static func requested(_ scene: VirtualScene) -> Int {
        scene.plane.state.withLock { $0.handshakesWith.count }
    }

    @Test(
        "Handshakes are requested in groups, messages are answered between them, and each peer has a turn before a second one"
    )
    func groups() async throws {
        let scene = Self.scene()
        try await scene.host.runner.start(scene.configuration, profileID: "test")
        #expect(Self.requested(scene) == Self.group)
        #expect(try await scene.status().peers.count == Self.count)
        // Waiting peers come before peers that had their turn.
        _ = try await scene.send(ReconfigureRequest(configuration: scene.configuration))
        #expect(Self.requested(scene) == 2 * Self.group)
        for expected in [3 * Self.group, Self.count, Self.count] {
            #expect(await scene.changes.wait { scene.clock.sleeperCount == 2 }, "the driver, and the pause")
            scene.clock.advance(by: .milliseconds(10))
            #expect(await scene.changes.wait { Self.requested(scene) == expected })
        }
        #expect(
            await scene.changes.wait { scene.plane.state.withLock { $0.handshakes } == Self.group + Self.count })
        #expect(await scene.changes.wait { scene.clock.sleeperCount == 1 }, "the driver alone")
        await scene.host.stop(.userInitiated)
    }

    @Test("A tunnel that ends, or pauses, requests no more", arguments: [true, false])
    func ends(_ pauses: Bool) async throws {
        let scene = Self.scene()
        try await scene.host.runner.start(scene.configuration, profileID: "test")
        #expect(await scene.changes.wait { scene.clock.sleeperCount == 2 })
        if pauses { await scene.host.sleep() } else { await scene.host.stop(.userInitiated) }
        #expect(await scene.changes.wait { scene.clock.sleeperCount == 0 })
        #expect(Self.requested(scene) == Self.group)
        await scene.host.stop(.userInitiated)
    }
}
