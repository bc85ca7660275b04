// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkExtension
import PacketTunnelTesting
import Testing
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

@Suite("WireGuard in an extension", .timeLimit(.minutes(5)))
struct WireGuardTests {
    @Test("Packets go through the flow both ways, and the app can ask how it does")
    func traffic() async throws {
        let scene = try await WireGuardScene()
        try await scene.start()
        #expect(await scene.passes())
        #expect(scene.behind.statistics.pingsAnswered > 0)
        let status = try await scene.status()
        #expect(status.state == .connected)
        #expect(status.receivedBytes > 0 && status.sentBytes > 0)
        let settings = try #require(scene.system.tunnel.standIn.settings)
        #expect(settings.ipv4Settings?.addresses == ["10.0.0.2"])
        #expect(settings.ipv6Settings?.includedRoutes?.first?.destinationAddress == "::")
        await scene.system.stop(.userInitiated)
        #expect(scene.system.unbalanced.missing == 0)
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("The tunnel continues after sleep, after another network, and after none")
    func life() async throws {
        let scene = try await WireGuardScene()
        try await scene.start()
        #expect(await scene.passes(1))
        await scene.system.sleep()
        scene.system.wake()
        #expect(await scene.passes(2))
        scene.system.pathChanged(NetworkPath(interfaces: [.init(name: "pdp_ip0", kind: .cellular, index: 9)]))
        #expect(await scene.passes(3))
        scene.system.pathChanged(.unsatisfied)
        #expect(await scene.system.changes.wait { scene.system.tunnel.reasserting })
        scene.system.pathChanged(NetworkPath(interfaces: [.init(name: "en0", kind: .wifi, index: 4)]))
        #expect(await scene.passes(4))
        #expect(await scene.system.changes.wait { !scene.system.tunnel.reasserting })
        await scene.system.stop(.userInitiated)
    }

    @Test("A burst beyond every queue is dropped by the system's queue, and the tunnel continues")
    func burst() async throws {
        let scene = try await WireGuardScene { $0.packetCapacity = 32 }
        try await scene.start()
        #expect(await scene.passes(1))
        let before = scene.behind.statistics.packetsReceived
        var taken = 0
        for number in 0..<200 {
            taken += scene.flow.route((0..<100).map { Data(Samples.packet(number * 100 + $0, size: 1_000)) })
        }
        #expect(scene.flow.droppedCount + taken >= 20_000)
        #expect(scene.flow.waitingCount <= scene.flow.capacity)
        #expect(await scene.system.changes.wait { scene.flow.waitingCount == 0 })
        #expect(await scene.passes(2))
        #expect(scene.behind.statistics.packetsReceived > before + 1)
        await scene.system.stop(.userInitiated)
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("With a descriptor, packets do not touch the flow, and its loss ends the tunnel with a reason")
    func descriptor() async throws {
        let device = try MemoryTun()
        let scene = try await WireGuardScene { options in
            options.packetAccess = .descriptor
            options.openDescriptor = { name throws(TunnelIOError) in
                // The name is the proof that it is this tunnel's.
                guard name == "utun7" else { throw TunnelIOError(.deviceNotFound(reason: "not ours")) }
                return device
            }
        }
        try await scene.start()
        #expect(await scene.passes(send: { device.inject($0) }, take: { device.takeDelivered() }))
        #expect(scene.flow.readCount == 0)
        device.removeDevice()
        #expect(await scene.system.changes.wait { scene.system.tunnel.standIn.cancellations.count == 1 })
        let error = try #require(scene.system.tunnel.standIn.cancellations.first ?? nil)
        #expect(TunnelError(error).code == .providerFailed)
        #expect(scene.system.status.status == .disconnected)
        await scene.system.stop(.userInitiated)
    }

    @Test("A descriptor that cannot be proven to be this tunnel's ends the start")
    func foreignDescriptor() async throws {
        let scene = try await WireGuardScene { options in
            options.packetAccess = .descriptor
            options.openDescriptor = { _ throws(TunnelIOError) in
                throw TunnelIOError(.deviceNotFound(reason: "this process has several"))
            }
        }
        await #expect {
            try await scene.start()
        } throws: {
            ($0 as? TunnelError)?.code == .hostFailed
        }
        #expect(scene.flow.readCount == 0)
    }
}
