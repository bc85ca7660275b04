// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkExtension
import PacketTunnelTesting
import Synchronization
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

    @Test("A utun socket of another tunnel is not used, even if it is the only one: the start ends")
    func foreignDescriptor() async throws {
        let sockets = UtunSockets(["utun3"])
        let scene = try await WireGuardScene { options in
            options.packetAccess = .descriptor
            options.openDescriptor = { name throws(TunnelIOError) in try sockets.open(name) }
        }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .hostFailed)
        #expect(error?.message.contains("'utun7'") == true)
        #expect(scene.flow.readCount == 0)
        // If the process also has the tunnel's own socket, the same search finds it.
        sockets.names.withLock { $0 = ["utun3", "utun7", "utun9"] }
        try await scene.start()
        #expect(sockets.opened.withLock { $0 } == ["utun7"])
        await scene.system.stop(.userInitiated)
    }
}

/// The utun sockets of a process, as ``UtunSearch`` sees them: the number of each is its index.
private final class UtunSockets: UtunSearchSystem {
    let names: Mutex<[String]>
    let opened = Mutex<[String]>([])

    init(_ names: [String]) { self.names = Mutex(names) }

    /// Opens the socket that the search of the system's interface finds.
    func open(_ name: String?) throws(TunnelIOError) -> any TunDevice {
        let descriptor = try UtunSearch.find(ofTunnel: name, system: self)
        if let name = interfaceName(of: descriptor) { opened.withLock { $0.append(name) } }
        return try MemoryTun()
    }

    func controlID(of descriptor: Int32) -> UInt32? { interfaceName(of: descriptor) == nil ? nil : 1 }
    func utunControlID(through descriptor: Int32) -> UInt32? { 1 }
    func interfaceName(of descriptor: Int32) -> String? {
        names.withLock { $0.indices.contains(Int(descriptor)) ? $0[Int(descriptor)] : nil }
    }
    func interfaceIndex(of name: String) -> UInt32 { 0 }
    func descriptorLimit() -> Int32 { 16 }
}
