// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import PacketTunnel
@testable import WireGuardTunnel

@Suite("A WireGuard device on a packet flow", .timeLimit(.minutes(1)))
struct DeviceDataPlaneTests {
    /// Both the flow and the monitor wrap the interface's device, and once neither forwarded the counter.
    @Test("The data plane counts the malformed frames of the interface")
    func malformedFrames() async throws {
        let memory = try MemoryTun()
        let flow = PacketFlow(device: FaultyTun(memory))
        var environment = WireGuardEnvironment()
        environment.network = MemoryInternet().attach([.v4(0xc000_0201)])
        let plane = try DeviceDataPlane(
            flow.leaseDevice(), UAPIDeviceUpdate(), environment: environment,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, onFailure: { _ in })
        memory.inject(PacketBuilder.icmpEcho(from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 1), identifier: 1, sequence: 1))
        while plane.drops()["malformed frames"] == nil { await Task.yield() }
        #expect(plane.drops()["malformed frames"] == 3)
        await plane.close()
    }

    @Test("4,096 allowed IPs have room in an extension; one more is refused, with a hint about memory")
    func manyAllowedIPs() async throws {
        var environment = WireGuardEnvironment()
        environment.network = MemoryInternet().attach([.v4(0xc000_0201)])
        var random = SeededGenerator(seed: 5)
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(PrivateKey(using: &random))
        var peer = UAPIPeerUpdate(publicKey: PrivateKey(using: &random).publicKey)
        func plane(_ count: Int) throws -> DeviceDataPlane {
            peer.allowedIPs = (0..<UInt32(count)).map { .add(IPPrefix(host: .v4(0x0a00_0000 + $0))) }
            update.peers = [peer]
            return try DeviceDataPlane(
                try MemoryTun(), update, environment: environment,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, onFailure: { _ in })
        }
        let full = try plane(4_096)
        await full.close()
        let error = #expect(throws: TunnelError.self) { try plane(4_097) }
        #expect(error?.code == .configurationInvalid)
        #expect(error?.description.contains("--memory") == true, "\(String(describing: error))")
    }

    @Test("An answer is consumed on any queue of the interface")
    func queues() throws {
        let memory = try MemoryTun()
        let probed = TapTun(memory, filter: true)
        let queue = try probed.makeQueue()
        let packet = PacketBuilder.icmpEcho(
            from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 1), identifier: 1, sequence: 1, isReply: true)
        probed.setFilter { _ in true }
        for device in [probed as any TunDevice, queue] {
            let batch = try PacketBatch()
            batch.append(copying: packet)
            #expect(try device.send(batch) == TunSendResult(sent: 0, dropped: 0))
        }
        #expect(memory.takeDelivered().isEmpty)
        probed.setFilter(nil)
        let batch = try PacketBatch()
        batch.append(copying: packet)
        #expect(try queue.send(batch).sent == 1)
        #expect(memory.takeDelivered() == [packet])
    }
}

/// An interface that has read three malformed frames.
private final class FaultyTun: ForwardingTun {
    let device: any TunDevice

    init(_ device: any TunDevice) { self.device = device }

    func check() {}
    func makeQueue() throws(TunnelIOError) -> any TunDevice { FaultyTun(try device.makeQueue()) }

    var statistics: TunStatistics {
        var statistics = device.statistics
        statistics.malformedFrames += 3
        return statistics
    }
}
