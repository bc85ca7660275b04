// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import PacketTunnel

/// A monitor and the simulated tunnel that it checks.
private struct Scene {
    var monitor: ConnectivityMonitor
    var now: Duration = .zero
    var received: UInt64 = 1000
    var handshakeAt: Duration? = .zero
    var reply = false
    var isGatewaySilent = false
    var isOwed = true

    init(_ endWhenDead: ConnectivityOptions.EndWhenDead = .never, options: ConnectivityOptions = ConnectivityOptions())
    {
        var options = options
        options.endWhenDead = endWhenDead
        monitor = ConnectivityMonitor(
            options: options, baseline: .init(now: .zero, receivedBytes: 1000, handshakeAge: .zero))
    }

    var observation: ConnectivityMonitor.Observation {
        .init(
            now: now, receivedBytes: received, handshakeAge: handshakeAt.map { now - $0 }, pingReplied: reply,
            isGatewaySilent: isGatewaySilent, isOwed: isOwed)
    }

    mutating func step() -> [ConnectivityMonitor.Action] {
        now += monitor.nextInterval
        defer { reply = false }
        return monitor.tick(observation)
    }

    /// Steps until `condition` holds for an action; returns the time it took, or `nil`.
    mutating func run(for limit: Duration, until condition: (ConnectivityMonitor.Action) -> Bool) -> Duration? {
        let start = now
        while now - start < limit {
            if step().contains(where: condition) { return now - start }
        }
        return nil
    }
}

@Suite("The connectivity monitor")
struct ConnectivityMonitorTests {
    @Test("Received data keeps the monitor idle")
    func traffic() {
        var scene = Scene()
        for _ in 0..<100 {
            scene.received += 32
            #expect(scene.step().isEmpty)
            #expect(scene.monitor.phase == .watching(flat: 0))
        }
    }

    @Test("f1.3: on silence the monitor probes after three checks, once per ping interval")
    func probes() {
        var scene = Scene()
        var probes: [Duration] = []
        while scene.now < .seconds(58) { if scene.step() == [.probe] { probes.append(scene.now) } }
        #expect(probes.first == .seconds(30))
        #expect(probes.count == 15)
        #expect(zip(probes, probes.dropFirst()).allSatisfy { $1 - $0 == .seconds(2) })
    }

    @Test("f1.2: only received data counts, so a dead tunnel is healed and then ended, in time")
    func dead() throws {
        var scene = Scene(.afterHealing)
        var actions: [(Duration, ConnectivityMonitor.Action)] = []
        while scene.monitor.phase != .ended { actions += scene.step().map { (scene.now, $0) } }
        let heals = actions.filter { if case .heal = $0.1 { true } else { false } }
        #expect(heals.map(\.1) == [.heal(.rebind), .heal(.resolve), .heal(.handshake)])
        #expect(heals.map(\.0) == [.seconds(60), .seconds(70), .seconds(80)])
        #expect(actions.last?.1 == .giveUp)
        #expect(scene.now <= (try #require(scene.monitor.options.timeToGiveUp)))
        #expect(actions.first { $0.1 == .reasserting(true) }?.0 == .seconds(60))
        #expect(scene.step().isEmpty, "it gives up once")
    }

    @Test("f1.8: an idle tunnel that answers pings is not reported as dead, for days")
    func idleWithPings() {
        var scene = Scene()
        var probes = 0
        while scene.now < .seconds(3 * 86_400) {
            for action in scene.step() {
                #expect(action == .probe)
                probes += 1
                scene.reply = true
            }
        }
        #expect(probes > 1000)
    }

    @Test("f1.8: a recent handshake is proof as well, if there is no address to ping")
    func idleWithHandshakes() {
        var scene = Scene()
        while scene.now < .seconds(86_400) {
            for action in scene.step() {
                #expect(action == .probe)
                scene.handshakeAt = scene.now + .milliseconds(50)
            }
        }
        #expect(scene.monitor.phase == .watching(flat: 0) || !scene.monitor.isReasserting)
    }

    @Test(
        "An idle tunnel is not probed, for days; once an answer is owed, it is checked from then on"
    )
    func nothingOwed() throws {
        var scene = Scene()
        scene.isOwed = false
        while scene.now < .seconds(3 * 86_400) { #expect(scene.step().isEmpty) }
        scene.isOwed = true
        let asked = try #require(scene.run(for: .seconds(600)) { $0 == .probe })
        #expect(asked == .seconds(30))
        #expect(!scene.monitor.isReasserting)
        let noticed = try #require(scene.run(for: .seconds(600)) { $0 == .reasserting(true) })
        #expect(asked + noticed <= scene.monitor.options.timeToNotice)
        #expect(scene.monitor.isReasserting)
    }

    @Test("An idle tunnel with an address to ping is probed, as its user asks")
    func pingsThoughNothingIsOwed() {
        var scene = Scene(options: ConnectivityOptions(pingAddress: "10.0.0.1"))
        scene.isOwed = false
        #expect(scene.run(for: .seconds(60)) { $0 == .probe } == .seconds(30))
    }

    @Test("While healing does not help, checks become rarer")
    func rarerLooks() {
        var scene = Scene()
        _ = scene.run(for: .seconds(600)) { $0 == .heal(.rebind) }
        #expect(scene.monitor.nextInterval <= .milliseconds(250))
        _ = scene.run(for: .seconds(600)) { $0 == .heal(.rebind) }
        #expect(scene.monitor.nextInterval == .seconds(scene.monitor.options.pingInterval))
    }

    @Test("An old handshake is not proof, nor is a future one after the clock was set back")
    func oldHandshake() {
        var scene = Scene()
        _ = scene.step()
        #expect(scene.monitor.phase == .watching(flat: 1))
        scene.handshakeAt = scene.now + .seconds(3600)
        _ = scene.step()
        #expect(scene.monitor.phase == .watching(flat: 2))
    }

    @Test("f1.7: the monitor keeps its own baseline: other readers do not make a live tunnel look flat")
    func ownBaseline() {
        var scene = Scene()
        for _ in 0..<50 {
            scene.received += 1
            // Other readers observe at any rate, without an effect.
            for _ in 0..<5 { _ = scene.observation }
            #expect(scene.step().isEmpty)
        }
        #expect(scene.monitor.phase == .watching(flat: 0))
    }

    @Test("Counters that were reset are proof only if data was received since")
    func resetCounters() {
        var scene = Scene()
        scene.received = 0
        _ = scene.step()
        #expect(scene.monitor.phase == .watching(flat: 1))
        scene.received = 92
        _ = scene.step()
        #expect(scene.monitor.phase == .watching(flat: 0))
    }

    @Test("Each step of healing that helps ends it", arguments: ConnectivityMonitor.Step.allCases)
    func heals(step: ConnectivityMonitor.Step) {
        var scene = Scene()
        #expect(scene.run(for: .seconds(200)) { $0 == .heal(step) } != nil)
        #expect(scene.monitor.isReasserting)
        scene.received += 1
        #expect(scene.step() == [.reasserting(false)])
        #expect(scene.monitor.phase == .watching(flat: 0))
    }

    @Test("A dead tunnel with `atOnce` ends when healing would begin, and is not healed")
    func atOnce() throws {
        var scene = Scene(.atOnce)
        var actions: [ConnectivityMonitor.Action] = []
        while scene.monitor.phase != .ended, scene.now < .seconds(600) { actions += scene.step() }
        #expect(Set(actions.dropLast()) == [.probe])
        #expect(actions.last == .giveUp)
        #expect(scene.now == .seconds(60))
        #expect(scene.now <= (try #require(scene.monitor.options.timeToGiveUp)))
        #expect(scene.step().isEmpty, "it gives up once")
        // The same holds if a gateway is silent while other peers send.
        var other = Scene(.atOnce)
        other.isGatewaySilent = true
        other.received += 1
        #expect(other.step() == [.giveUp])
    }

    @Test("A plain stop has the constants that an app without healing expects, and ends a dead tunnel within a minute")
    func plainStop() throws {
        var scene = Scene(.atOnce, options: .plainStop(pingAddress: "10.0.0.1"))
        #expect(ConnectivityOptions.plainStop().endWhenDead == .atOnce)
        var actions: [ConnectivityMonitor.Action] = []
        while scene.monitor.phase != .ended, scene.now < .seconds(600) { actions += scene.step() }
        // Three checks, one every ten seconds, then a ping every two seconds, then the end.
        #expect(actions.filter { $0 == .probe }.count == 15)
        #expect(actions.last == .giveUp && scene.now == .seconds(60))
        #expect(!actions.contains { if case .heal = $0 { true } else { false } })
    }

    @Test("By default the monitor never ends the tunnel, retries more slowly, and detects when it works")
    func persists() {
        var scene = Scene()
        #expect(scene.monitor.options.timeToGiveUp == nil)
        var rebinds: [Duration] = []
        while scene.now < .seconds(3600) {
            let actions = scene.step()
            #expect(!actions.contains(.giveUp))
            if actions.contains(.heal(.rebind)) { rebinds.append(scene.now) }
        }
        #expect(rebinds.count > 5)
        #expect(rebinds.count < 40, "it takes its time")
        #expect(scene.monitor.isReasserting)
        scene.reply = true
        #expect(scene.step() == [.reasserting(false)])
    }

    @Test("After a pause the monitor needs proof, and earlier observations do not count")
    func restart() {
        var scene = Scene()
        for _ in 0..<2 { _ = scene.step() }
        scene.now += .seconds(8 * 3600)
        scene.monitor.restart(from: scene.observation, isReasserting: true)
        #expect(scene.monitor.nextInterval <= .milliseconds(250), "who waits wants to know soon")
        #expect(scene.step() == [.probe])
        scene.received += 1
        #expect(scene.step() == [.reasserting(false)])
        #expect(scene.monitor.nextInterval == .seconds(10))
    }

    @Test("Networks that change again and again do not keep a dead tunnel connected")
    func flapping() {
        var scene = Scene()
        let bound = scene.monitor.options.timeToNotice
        while !scene.monitor.isReasserting, scene.now < .seconds(600) {
            _ = scene.step()
            // This is sooner than healing would begin.
            if Int(scene.now / .seconds(1)) % 20 == 0 {
                scene.monitor.restart(from: scene.observation, isReasserting: scene.monitor.isReasserting)
            }
        }
        #expect(scene.monitor.isReasserting)
        #expect(scene.now <= bound)
    }

    @Test("After an unannounced sleep the monitor needs proof immediately")
    func unannouncedSleep() {
        var scene = Scene()
        scene.received += 1
        _ = scene.step()
        scene.now += .seconds(4 * 3600)
        #expect(scene.step() == [.reasserting(true), .probe])
        scene.reply = true
        #expect(scene.step() == [.reasserting(false)])
    }

    @Test("Data from other peers is not proof for a silent peer with a default route")
    func silentGateway() {
        var scene = Scene()
        scene.received += 1
        #expect(scene.step().isEmpty)
        scene.received += 1
        scene.isGatewaySilent = true
        #expect(scene.step() == [.reasserting(true), .heal(.rebind), .probe])
        scene.received += 1
        #expect(scene.step().isEmpty || scene.monitor.isReasserting)
        scene.isGatewaySilent = false
        scene.received += 1
        #expect(scene.step() == [.reasserting(false)])
    }

    @Test("The documented bounds hold for other constants, at any phase of the last proof", arguments: 0..<20)
    func bounds(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let options = ConnectivityOptions(
            connectivityInterval: Double(random.int(in: 1...60)), maxConnectionAttempts: random.int(in: 1...6),
            pingInterval: Double(random.int(in: 1...5)), healingInterval: Double(random.int(in: 1...30)))
        var scene = Scene(seed % 2 == 0 ? .afterHealing : .atOnce, options: options)
        for _ in 0..<random.int(in: 0..<20) {
            if random.chance(0.5) { scene.received += 1 }
            _ = scene.step()
            // Monitoring would end before it begins.
            if scene.monitor.phase == .ended {
                scene = Scene(seed % 2 == 0 ? .afterHealing : .atOnce, options: options)
            }
        }
        // The last proof arrives right after a check.
        let last = scene.now
        scene.received += 1
        var noticed: Duration?
        while scene.monitor.phase != .ended {
            let actions = scene.step()
            if noticed == nil, actions.contains(.reasserting(true)) || actions.contains(.giveUp) { noticed = scene.now }
        }
        #expect((noticed ?? .seconds(1_000_000)) - last <= options.timeToNotice)
        #expect(scene.now - last <= (try #require(scene.monitor.options.timeToGiveUp)))
    }
}
