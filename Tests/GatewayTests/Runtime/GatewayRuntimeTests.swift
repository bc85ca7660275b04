// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelLinux
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO
import TunnelServer
import WireGuardCore

@testable import Gateway

/// A network in memory whose calls fail or wait if a test sets it so.
private final class FaultyNetwork: PeerNetwork {
    struct State {
        /// The network's present clients.
        var present: [IPPrefix: ClientAccess] = [:]
        var calls = 0
        /// For each call, whether it contained all clients.
        var wereComplete: [Bool] = []
        /// The calls that fail, counted from 1.
        var failing: ClosedRange<Int>?
        var takesEffect = false
        var refused: [IPPrefix: TunnelServerError] = [:]
        var condition = NetworkState()
        var released: Set<IPPrefix> = []
        /// A call that waits for ``FaultyNetwork/proceed()``.
        var waiting: CheckedContinuation<Void, Never>?
        var waits = false
    }

    let state = Mutex(State())
    let changes = Changes()

    func start() async throws(TunnelServerError) -> PeerNetworkDevices {
        do {
            let device = try VirtualNetwork().makeTun(name: "wg")
            return PeerNetworkDevices(device, addresses: [])
        } catch {
            throw .notRunning
        }
    }

    func apply(
        _ changes: [IPPrefix: ClientAccess?], isComplete: Bool, released: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        await withCheckedContinuation { continuation in
            let waits = state.withLock { state in
                if state.waits { state.waiting = continuation }
                return state.waits
            }
            self.changes.notify()
            if !waits { continuation.resume() }
        }
        defer { self.changes.notify() }
        let (hasFailed, refused) = state.withLock { state in
            state.calls += 1
            state.wereComplete.append(isComplete)
            let fails = state.failing?.contains(state.calls) == true
            guard !fails || state.takesEffect else { return (true, [IPPrefix: TunnelServerError]()) }
            state.released.formUnion(released)
            if isComplete { state.present = [:] }
            for (prefix, access) in changes { state.present[prefix] = access }
            return (fails, state.refused)
        }
        if hasFailed { throw .notRunning }
        return refused
    }

    func proceed() {
        let waiting = state.withLock { state in
            state.waits = false
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    func check(subnets _: [IPPrefix]) async throws(TunnelServerError) {}

    func stop() async {}
    var condition: NetworkState { state.withLock { $0.condition } }
}

@Suite("A gateway's runtime under faults", .timeLimit(.minutes(2)))
struct GatewayRuntimeTests {
    private struct Made {
        let fixture: ServiceFixture
        let runtime: GatewayRuntime
        let network: FaultyNetwork

        /// Waits for a condition, which is evaluated after each call of the network and each round.
        func wait(_ what: Comment, until condition: () async throws -> Bool) async throws {
            #expect(try await network.changes.wait(within: .seconds(20), until: condition), what)
        }

        var isReady: Bool { runtime.readiness.isReady }
    }

    /// - Parameter prepare: Changes the store before the runtime starts.
    private func run(
        prepare: (ServiceFixture) async throws -> Void = { _ in }, _ body: (Made) async throws -> Void
    ) async throws {
        let (fixture, network) = (try ServiceFixture(), FaultyNetwork())
        try await prepare(fixture)
        var options = GatewayRuntime.Options()
        (options.sweepInterval, options.flushInterval) = (.milliseconds(5), .seconds(60))
        options.onApplied = { [changes = network.changes] _ in changes.notify() }
        let clock = fixture.clock
        let runtime = GatewayRuntime(
            service: fixture.service, network: network,
            datagrams: MemoryInternet().attach([.v4(198, 51, 100, 1)]), options: options,
            clock: GatewayClock(
                now: { Date(timeIntervalSince1970: Double(clock.wall.seconds)) }, nanoseconds: { clock.nanoseconds }),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()
        let running = Task { try await runtime.run() }
        try await body(Made(fixture: fixture, runtime: runtime, network: network))
        running.cancel()
        _ = await running.result
        #expect(!runtime.readiness.isReady)
    }

    /// Adds a device that has a key.
    private func device(
        _ made: Made, of user: User, _ name: String, addresses: [IPAddress] = []
    ) async throws -> Device {
        try await device(made.fixture, of: user, name, addresses: addresses)
    }

    private func device(
        _ fixture: ServiceFixture, of user: User, _ name: String, addresses: [IPAddress] = []
    ) async throws -> Device {
        let draft = DeviceDraft(userID: user.id, name: name, publicKey: fixture.key().publicKey, addresses: addresses)
        let id = try await fixture.service.addDevice(draft, fixture.admin).item.device.id
        return try await fixture.service.device(id, fixture.admin)
    }

    @Test("The start ends the connections of a device that was never seen, and keeps those of a device that was seen")
    func neverSeen() async throws {
        let devices = Mutex<[Device]>([])
        try await run(prepare: { fixture in
            let user = try await fixture.user()
            let (old, new) = (try await device(fixture, of: user, "old"), try await device(fixture, of: user, "new"))
            let activity = DeviceActivity(
                deviceID: old.id, traffic: .init(received: 1), lastSeenAt: fixture.gatewayClock.now())
            try await fixture.service.record([activity], .gateway)
            devices.withLock { $0 = [old, new] }
        }) { made in
            let new = try #require(devices.withLock { $0.last })
            #expect(made.network.state.withLock { $0.released } == Set(new.addresses.map { IPPrefix(host: $0) }))
            #expect(made.network.state.withLock { $0.present.count } == 2 * new.addresses.count)
        }
    }

    @Test("The first list of clients after a start is complete, even without a device; later lists are not")
    func firstList() async throws {
        try await run { made in
            try await made.wait("a list") { made.network.state.withLock { $0.wereComplete == [true] } }
            _ = try await device(made, of: try await made.fixture.user(), "one")
            try await made.wait("a second list") { made.network.state.withLock { $0.wereComplete == [true, false] } }
        }
    }

    @Test(
        "A network that fails at any call, before or after the call takes effect, has the store's devices in the end",
        arguments: [false, true])
    func faults(takesEffect: Bool) async throws {
        for call in 1...6 {
            for length in [0, 2] {
                try await run { made in
                    let (service, admin) = (made.fixture.service, made.fixture.admin)
                    made.network.state.withLock { state in
                        let first = state.calls + call
                        (state.failing, state.takesEffect) = (first...first + length, takesEffect)
                    }
                    let user = try await made.fixture.user()
                    let (one, two) = (try await device(made, of: user, "one"), try await device(made, of: user, "two"))
                    func expect(_ devices: [DeviceID: Int], _ what: Comment) async throws {
                        let all = try await service.devices(PageRequest(), admin).items
                        let wanted = Dictionary(
                            uniqueKeysWithValues: all.flatMap { device in
                                device.addresses.map { (IPPrefix(host: $0), devices[device.id]) }
                            })
                        try await made.wait("\(what), call \(call), \(length) more") {
                            let present = made.network.state.withLock { $0.present }
                            return made.isReady && made.runtime.figures.peers == devices.count
                                && present.mapValues { $0.rules.count } == wanted.compactMapValues { $0 }
                        }
                    }
                    try await expect([one.id: 0, two.id: 0], "devices were added")
                    _ = try await service.setRules(
                        of: .device(one.id), [RuleDraft(AccessRule(.deny, transport: .udp))], admin)
                    try await expect([one.id: 1, two.id: 0], "a rule was added")
                    try await service.removeDevice(one.id, admin)
                    try await expect([two.id: 0], "a device was removed")
                    var update = UserUpdate()
                    update.isEnabled = false
                    _ = try await service.updateUser(user.id, update, admin)
                    try await expect([:], "the user was disabled")
                }
            }
        }
    }

    @Test("A failed round makes the gateway not ready, with the reason and its time, until a round succeeds")
    func notReady() async throws {
        try await run { made in
            #expect(made.isReady && made.runtime.readiness.problems.isEmpty)
            let began = Double(made.fixture.clock.wall.seconds)
            made.network.state.withLock { $0.failing = 1...Int.max }
            _ = try await device(made, of: try await made.fixture.user(), "one")
            try await made.wait("the gateway is not ready") { !made.isReady }
            let problem = try #require(made.runtime.readiness.problems.first)
            #expect(problem.what.hasPrefix("the network: ") && problem.since == began)
            func value(_ name: String, _ label: String) -> Double? {
                made.runtime.figures.families.first { $0.name == name }?.samples
                    .first { $0.labels.first?.value == label }?.value
            }
            #expect(value("culvert_gateway_not_in_effect", "part") == 1)
            #expect(value("culvert_gateway_not_in_effect_since_timestamp_seconds", "part") == began)
            #expect(value("culvert_gateway_rounds_total", "failed") ?? 0 >= 1)
            #expect(
                made.runtime.figures.sequence
                    < (try await made.fixture.service.status(made.fixture.admin).counts.sequence))
            made.fixture.clock.advance(by: .seconds(3))
            let calls = made.network.state.withLock { $0.calls }
            try await made.wait("the round is repeated") { made.network.state.withLock { $0.calls } > calls + 1 }
            #expect(made.runtime.readiness.problems.first?.since == began)
            made.network.state.withLock { $0.failing = nil }
            try await made.wait("the gateway is ready again") { made.isReady }
            #expect(made.runtime.readiness.problems.isEmpty && made.runtime.figures.peers == 1)
            #expect(value("culvert_gateway_not_in_effect", "part") == 0)
            #expect(value("culvert_gateway_not_in_effect_since_timestamp_seconds", "part") == nil)
        }
    }

    @Test("A round that runs for more than a second makes the gateway not ready, and a shorter one does not")
    func longRound() async throws {
        try await run { made in
            made.network.state.withLock { $0.waits = true }
            _ = try await device(made, of: try await made.fixture.user(), "one")
            try await made.wait("a round runs") { made.network.state.withLock { $0.waiting != nil } }
            made.fixture.clock.advance(by: .milliseconds(900))
            #expect(made.isReady)
            made.fixture.clock.advance(by: .milliseconds(200))
            #expect(!made.isReady)
            #expect(made.runtime.readiness.problems.first?.what.contains("being applied") == true)
            made.network.proceed()
            try await made.wait("the gateway is ready again") { made.isReady && made.runtime.figures.peers == 1 }
        }
    }

    @Test("A device that is removed while the network does not answer leaves WireGuard without waiting for the answer")
    func hungNetwork() async throws {
        try await run { made in
            let user = try await made.fixture.user()
            let one = try await device(made, of: user, "one")
            _ = try await device(made, of: user, "two")
            try await made.wait("the devices are in") { made.isReady && made.runtime.figures.peers == 2 }
            made.network.state.withLock { $0.waits = true }
            _ = try await device(made, of: user, "three")
            try await made.wait("a round runs") { made.network.state.withLock { $0.waiting != nil } }
            try await made.fixture.service.removeDevice(one.id, made.fixture.admin)
            #expect(
                await waitUntil(timeout: .seconds(60), pollEvery: .milliseconds(5)) { made.runtime.figures.peers == 1 },
                "the device is a peer while the network does not answer")
            #expect(made.network.state.withLock { $0.waiting != nil })
            made.network.proceed()
            try await made.wait("the others are in") { made.isReady && made.runtime.figures.peers == 2 }
            let prefixes = one.addresses.map { IPPrefix(host: $0) }
            try await made.wait("the removed device has left the network") {
                made.network.state.withLock { state in prefixes.allSatisfy { state.present[$0] == nil } }
            }
        }
    }

    @Test("The network ends the connections of an address that passes from one device to another in the same round")
    func handedOn() async throws {
        try await run { made in
            let (service, admin) = (made.fixture.service, made.fixture.admin)
            let user = try await made.fixture.user()
            let one = try await device(made, of: user, "one")
            try await made.wait("the first device is in") { made.runtime.figures.peers == 1 && made.isReady }
            made.network.state.withLock { $0.waits = true }
            _ = try await device(made, of: user, "other")
            try await made.wait("a round runs") { made.network.state.withLock { $0.waiting != nil } }
            try await service.removeDevice(one.id, admin)
            _ = try await service.clearCooldowns(CooldownFilter(), admin)
            let two = try await device(made, of: user, "two", addresses: one.addresses)
            #expect(Set(two.addresses) == Set(one.addresses))
            made.network.state.withLock { $0.released = [] }
            made.network.proceed()
            let prefixes = Set(one.addresses.map { IPPrefix(host: $0) })
            try await made.wait("the network has ended the connections") {
                made.network.state.withLock { $0.released.isSuperset(of: prefixes) }
            }
            try await made.wait("all devices are in") { made.runtime.figures.peers == 2 && made.isReady }
        }
    }

    @Test(
        "A device that the network excludes is named, and other devices are admitted; it gets its address once the network accepts it"
    )
    func excluded() async throws {
        try await run { made in
            let user = try await made.fixture.user()
            let one = try await device(made, of: user, "one")
            try await made.wait("the first device is in") { made.runtime.figures.peers == 1 && made.isReady }
            let prefix = IPPrefix(host: one.addresses[0])
            made.network.state.withLock { $0.refused = [prefix: .refused(prefix, "too long")] }
            _ = try await device(made, of: user, "two")
            // A round adds peers before it publishes its exclusions.
            try await made.wait("the second device is in, and the first is named") {
                made.runtime.figures.peers == 2 && made.isReady && !made.runtime.readiness.exclusions.isEmpty
            }
            let exclusion = try #require(made.runtime.readiness.exclusions.first)
            #expect(exclusion.what.contains("\(one.id)") && exclusion.what.contains("\(prefix)"))
            let sources = made.runtime.livePeers[try #require(one.publicKey)]?.allowedIPs
            #expect(sources?.contains(prefix) == false)
            made.network.state.withLock { $0.refused = [:] }
            try await made.wait("the first device is whole") { made.runtime.readiness.exclusions.isEmpty }
            try await made.wait("it has its source") {
                made.runtime.livePeers[try #require(one.publicKey)]?.allowedIPs.contains(prefix) == true
            }
        }
    }

    @Test("A network that is held makes the gateway not ready, with its problems")
    func held() async throws {
        try await run { made in
            made.network.state.withLock { state in
                state.condition.isHeld = true
                state.condition.problems = [.init(what: "the firewall: nft is not installed", since: 5)]
            }
            #expect(!made.isReady && made.runtime.readiness.problems.map(\.since) == [5])
            made.network.state.withLock { $0.condition = NetworkState() }
            #expect(made.isReady)
        }
    }
}
