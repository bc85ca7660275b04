// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import Gateway

@Suite("Handshakes after a gateway's start", .timeLimit(.minutes(2)))
struct SessionResumptionTests {
    private static let now = Date(timeIntervalSince1970: 1_767_225_600)
    private static let server = IPAddress.v4(198, 51, 100, 1)
    private static let client = IPAddress.v4(198, 51, 100, 2)
    private var generator = SeededGenerator(seed: 35)

    /// Devices that were seen this long ago, in seconds. The port of each is its position in the list.
    private mutating func former(_ ages: [Double]) -> [PublicKey: FormerEndpoint] {
        var result: [PublicKey: FormerEndpoint] = [:]
        for (index, age) in ages.enumerated() {
            result[PrivateKey(using: &generator).publicKey] = FormerEndpoint(
                Endpoint(address: Self.client, port: UInt16(index)), seenAt: Self.now.addingTimeInterval(-age))
        }
        return result
    }

    @Test(
        "Devices that were seen in the last 180 s and one flush, or in the future, get a handshake, the last one first")
    mutating func selection() {
        let ages: [Double] = [211, 209, 3, 60, 86_400, -60, -211, -34_560_000]
        let resumption = SessionResumption(former(ages), at: Self.now, flushInterval: .seconds(30))
        #expect(resumption.devices.map(\.endpoint.port) == [7, 6, 5, 2, 3, 1])
    }

    @Test(
        "If the clock is behind, the second latest device replaces it: one wrong time excludes no device, and includes none"
    )
    mutating func clockIsBehind() {
        // The last device was seen 3 s ago, and one has a time that is a year in the future.
        let ages: [Double] = [3, 60, 212, 214, -31_536_000] + (1...1000).map { 3600 * Double($0) }
        let former = former(ages)
        let booted = Date(timeIntervalSince1970: 60)
        let resumption = SessionResumption(former, at: booted, flushInterval: .seconds(30))
        #expect(resumption.devices.map(\.endpoint.port) == [4, 0, 1, 2])
        // The same devices with the right clock.
        let right = SessionResumption(former, at: Self.now, flushInterval: .seconds(30))
        #expect(right.devices.map(\.endpoint.port) == [4, 0, 1])
    }

    @Test("If the clock is behind, a single device gets a handshake, and no device is not an error")
    mutating func fewDevices() {
        let booted = Date(timeIntervalSince1970: 60)
        let single = SessionResumption(former([3]), at: booted, flushInterval: .zero)
        #expect(single.devices.map(\.endpoint.port) == [0])
        let none = SessionResumption([:], at: booted, flushInterval: .zero)
        #expect(none.devices.isEmpty)
    }

    @Test("At most twenty handshakes start in 20 ms, and cancelling ends them")
    mutating func pacing() async throws {
        let resumption = SessionResumption(
            former((0..<90).map { Double($0) }), at: Self.now, flushInterval: .seconds(30))
        let clock = VirtualClock()
        let ports = Mutex<[UInt16]>([])
        let running = Task {
            await resumption.run(clock: clock) { _, endpoint in
                ports.withLock { $0.append(endpoint.port) }
                // A device that has connected by itself takes its turn.
                return endpoint.port % 2 == 0
            }
        }
        for group in 1...4 {
            await clock.waitForSleepers()
            #expect(ports.withLock { $0 } == Array(0..<UInt16(20 * group)))
            #expect(clock.now.offset == .milliseconds(20 * (group - 1)))
            clock.advance(by: .milliseconds(19))
            #expect(clock.sleeperCount == 1)
            if group < 4 { clock.advance(by: .milliseconds(1)) }
        }
        running.cancel()
        #expect(await running.value == 40 && ports.withLock { $0.count } == 80)
    }

    /// The datagrams on an internet.
    private struct Sent: Sendable {
        let changes = Changes()
        private let seen = Eavesdropper<MemoryDatagram>()

        init(on internet: MemoryInternet) {
            internet.setFilter { [changes, seen] datagram in
                seen.observe(datagram)
                changes.notify()
                return true
            }
        }

        var datagrams: [MemoryDatagram] { seen.messages }
    }

    /// Runs the fixture's gateway on an internet until `body` returns.
    /// - Returns: The datagrams on the internet.
    private static func run(
        _ fixture: ServiceFixture, on internet: MemoryInternet, until body: (Sent) async throws -> Void
    ) async throws -> [MemoryDatagram] {
        let sent = Sent(on: internet)
        let runtime = GatewayRuntime(
            service: fixture.service, network: MemoryPeerNetwork(),
            datagrams: internet.attach([server]), clock: fixture.gatewayClock,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()
        let running = Task { try await runtime.run() }
        defer { running.cancel() }
        try await body(sent)
        running.cancel()
        _ = await running.result
        return sent.datagrams
    }

    @Test("Resumptions run one after another, and cancelling ends the present one and those that wait")
    mutating func oneAfterAnother() async {
        let (resumptions, source) = AsyncStream.makeStream(of: SessionResumption.self)
        for _ in 0..<3 {
            source.yield(
                SessionResumption(former((0..<30).map { Double($0) }), at: Self.now, flushInterval: .seconds(30)))
        }
        let clock = VirtualClock()
        let started = Mutex(0)
        let running = Task {
            await SessionResumption.run(resumptions) { resumption in
                _ = await resumption.run(clock: clock) { _, _ in
                    started.withLock { $0 += 1 }
                    return true
                }
            }
        }
        await clock.waitForSleepers()
        #expect(started.withLock { $0 } == 20)
        clock.advance(by: .milliseconds(20))
        await clock.waitForSleepers()
        // The other ten devices of the first resumption, and twenty of the second.
        #expect(started.withLock { $0 } == 50)
        running.cancel()
        await running.value
        #expect(started.withLock { $0 } == 50)
    }

    @Test("A gateway that starts sends an initiation to each device that it recorded recently, and to no other")
    func start() async throws {
        let (fixture, internet) = (try ServiceFixture(), MemoryInternet())
        let user = try await fixture.user()
        func device(_ name: String) async throws -> DeviceID {
            let draft = DeviceDraft(userID: user.id, name: name, publicKey: fixture.key().publicKey)
            return try await fixture.service.addDevice(draft, fixture.admin).item.device.id
        }
        func see(_ id: DeviceID, age: Double, port: UInt16) async throws {
            let activity = DeviceActivity(
                deviceID: id, traffic: .init(received: 1),
                lastSeenAt: fixture.gatewayClock.now().addingTimeInterval(-age),
                endpoint: Endpoint(address: Self.client, port: port))
            try await fixture.service.record([activity], .gateway)
        }
        let (old, disabled) = (try await device("old"), try await device("disabled"))
        let (recent, lessRecent) = (try await device("recent"), try await device("less recent"))
        fixture.clock.advance(by: .seconds(3600))
        let otherKey = try await device("had another key")
        try await see(old, age: 300, port: 1)
        try await see(disabled, age: 1, port: 2)
        try await see(otherKey, age: 1, port: 5)
        try await see(lessRecent, age: 150, port: 4)
        try await see(recent, age: 2, port: 3)
        var update = DeviceUpdate()
        update.isEnabled = false
        _ = try await fixture.service.updateDevice(disabled, update, fixture.admin)

        let datagrams = try await Self.run(fixture, on: internet) { sent in
            #expect(await sent.changes.wait(within: .seconds(20)) { sent.datagrams.count >= 2 })
        }
        #expect(datagrams.map(\.destinationPort) == [3, 4])
        #expect(datagrams.allSatisfy { $0.destination == Self.client && $0.bytes.first == 1 && $0.bytes.count == 148 })
    }

    @Test("A gateway sends an initiation to a device that is enabled again, at its last endpoint")
    func enabledAgain() async throws {
        let (fixture, internet) = (try ServiceFixture(), MemoryInternet())
        let user = try await fixture.user()
        let draft = DeviceDraft(userID: user.id, name: "phone", publicKey: fixture.key().publicKey)
        let id = try await fixture.service.addDevice(draft, fixture.admin).item.device.id
        let activity = DeviceActivity(
            deviceID: id, traffic: .init(received: 1), lastSeenAt: fixture.gatewayClock.now(),
            endpoint: Endpoint(address: Self.client, port: 3))
        try await fixture.service.record([activity], .gateway)
        var update = DeviceUpdate()
        update.isEnabled = false
        _ = try await fixture.service.updateDevice(id, update, fixture.admin)

        let datagrams = try await Self.run(fixture, on: internet) { sent in
            #expect(sent.datagrams.isEmpty)
            update.isEnabled = true
            _ = try await fixture.service.updateDevice(id, update, fixture.admin)
            #expect(await sent.changes.wait(within: .seconds(20)) { !sent.datagrams.isEmpty })
        }
        #expect(datagrams.first?.destinationPort == 3)
    }
}
