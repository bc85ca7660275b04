// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

/// A day of a phone with a tunnel, in simulated time: what happens follows from the seed, and what must hold is checked
/// whenever something happened.
///
/// The provider, its host and the WireGuard engines at both ends are the real ones. Simulated are the clock, the sockets,
/// the networks between them, name servers, and the person who carries the phone.
final class PhoneDay: @unchecked Sendable {
    /// What happens to the phone.
    enum Happening: Hashable, Sendable {
        case wake
        case sleep(announced: Bool)
        case attach(Int?, announcedAfter: Duration)
        case announcePath
        case burst(Int)
        case setConditions(bad: Bool)
        case cut(Bool)
        case logIn
        case forgetMappings
        case serverDown
        case serverUp(restarted: Bool)
        case serverMoves
        case publish
        case mood(Int)
        case stop
        case start
        case retry
        case reconfigure
    }

    /// What a day came to.
    struct Figures: Sendable {
        var days = 0
        var awake: Duration = .zero
        /// The longest time from the last sign of life to the end of `connected`.
        var worstNotice: Duration = .zero
        /// The longest time from when all was good to `connected`.
        var worstHeal: Duration = .zero
        var outages = 0
        var starts = 0
        var sent = 0
        var echoed = 0
        var blocked = 0
        var datagrams = 0
        var jobs = 0
        var problems: [String] = []

        mutating func add(_ other: Figures) {
            days += other.days
            awake += other.awake
            worstNotice = max(worstNotice, other.worstNotice)
            worstHeal = max(worstHeal, other.worstHeal)
            outages += other.outages
            starts += other.starts
            sent += other.sent
            echoed += other.echoed
            blocked += other.blocked
            datagrams += other.datagrams
            jobs += other.jobs
            problems += other.problems
        }
    }

    static let inner = NetworkAddress.v4(10, 0, 0, 2)

    let seed: UInt64
    /// How long the day is.
    let length: Duration
    let world: SimulatedWorld
    let resolver: SimulatedResolver
    let host: MemoryHost<WireGuardTunnelProvider>
    var configuration: WireGuardTunnelConfiguration
    let policy: LeakPolicy
    var random: SeededGenerator
    private(set) var figures = Figures()
    private(set) var log: [String] = []
    private let keepsLog: Bool

    // MARK: The script

    var agenda: [(time: Duration, number: Int, happening: Happening)] = []
    private var nextNumber = 0
    /// Changes of the network that the provider was not told of yet.
    private var pendingAnnouncements = 0
    private var pendingReconfigurations = 0

    // MARK: The phone

    var isAwake = true
    private var awakeSince: Duration = .zero
    /// Whether the user wants the tunnel up.
    var wantsTunnel = false
    private var isStarting = false
    private var hasRetry = false
    private var stopsBegun: [Int: Duration] = [:]
    private var nextStop = 0
    private var startsBegun: Duration?
    /// Whether the policy must hold: from the start, or from the first settings, to the user's stop.
    private var mustHold = false
    private var lastStatus = TunnelStatus.disconnected
    private var lastSigns: UInt64 = 0
    private var lastLife: Duration = .zero
    private weak var lastPlane: SimulatedPlane?
    /// Since when everything outside of the tunnel is good; nil while it is not.
    private var goodSince: Duration? = .zero
    private var wasConnectedInTime = false

    // MARK: Packets

    private var nextPacket: UInt32 = 0
    private var expectedAtServer: [UInt32: [UInt8]] = [:]
    private var expectedEcho: [UInt32: [UInt8]] = [:]
    private var probeBurst: (since: Duration, first: UInt32, echoed: Bool)?

    init(seed: UInt64, length: Duration = .seconds(86_400), keepsLog: Bool = false) {
        self.seed = seed
        self.length = length
        self.keepsLog = keepsLog
        var random = SeededGenerator(seed: seed &* 0x9e37_79b9 &+ 3)
        let prefix = NetworkPrefix(host: Self.inner)
        world = SimulatedWorld(seed: seed, inner: IPPrefix(prefix).map { [$0] } ?? [])
        resolver = SimulatedResolver(world: world, seed: seed)
        policy = LeakPolicy.allCases[random.int(in: 0...2)]
        world.serverHasIPv6 = random.chance(0.5)
        world.networks = Self.makeNetworks(&random)
        world.attached = 0
        let isNamed = random.chance(0.85)
        let endpoint = (isNamed ? SimulatedWorld.serverName : "198.51.100.1") + ":\(SimulatedWorld.port)"
        configuration = WireGuardTunnelConfiguration(
            addresses: [prefix],
            peers: [
                .init(
                    publicKey: world.serverKey.publicKey.base64, endpoint: endpoint,
                    allowedIPs: [.allIPv4, .allIPv6], persistentKeepalive: random.chance(0.5) ? 25 : 0)
            ],
            connectivity: ConnectivityOptions(pingAddress: random.chance(0.7) ? "10.0.0.1" : nil))
        let secret = world.phoneKey.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        var environment = WireGuardEnvironment()
        environment.resolver = resolver
        let (world, used) = (world, environment)
        host = MemoryHost(
            path: world.networks[0].path, secrets: MemorySecrets(["private-key": secret]), clock: world.clock
        ) {
            WireGuardTunnelProvider(environment: used) { tun, update, _, _ throws(TunnelError) in
                try SimulatedPlane(tun, update, world: world)
            }
        }
        self.random = random
        world.onProblem = { [unowned self] in problem($0) }
        world.onArrival = { [unowned self] in arrived($0) }
    }

    private static func makeNetworks(_ random: inout SeededGenerator) -> [SimulatedNetwork] {
        var networks = [
            SimulatedNetwork(
                name: "home", kind: .wifi, publicV4: IPAddress(v4: 0xcb00_7101),
                publicV6: IPAddress(v6High: 0x2001_0db8_0001_0000, low: 1)),
            SimulatedNetwork(
                name: "mobile", kind: .cellular, publicV4: IPAddress(v4: 0xcb00_7102),
                publicV6: IPAddress(v6High: 0x2001_0db8_0002_0000, low: 2)),
            SimulatedNetwork(
                name: "office", kind: .wifi, publicV4: IPAddress(v4: 0xcb00_7103),
                publicV6: IPAddress(v6High: 0x2001_0db8_0003_0000, low: 3)),
            SimulatedNetwork(
                name: "hotel", kind: .wifi, publicV4: IPAddress(v4: 0xcb00_7104),
                publicV6: IPAddress(v6High: 0x2001_0db8_0004_0000, low: 4)),
        ]
        networks[0].hasIPv6 = random.chance(0.5)
        networks[2].hasIPv6 = random.chance(0.5)
        if random.chance(0.6) {
            // IPv6 only, as mobile networks are.
            networks[1].hasIPv4 = false
            networks[1].hasIPv6 = true
            networks[1].nat64 =
                random.chance(0.5) ? NAT64Prefix.standard : NAT64Prefix(value: 0x2001_0db8_0064 << 80, length: 96)
            networks[1].hasDNS64 = random.chance(0.7)
        }
        for index in networks.indices { networks[index].natTimeout = .seconds(random.int(in: 25...300)) }
        networks[3].isCaptive = true
        return networks
    }

    /// Lives the day.
    func run() -> Figures {
        let loop = JobLoop()
        loop.run {
            plan()
            while step(loop), figures.problems.isEmpty {}
            finish(loop)
        }
        figures.days = 1
        figures.jobs = loop.count
        figures.datagrams = world.datagrams
        return figures
    }

    // MARK: - Time

    func schedule(_ happening: Happening, at time: Duration) {
        let entry = (time: time, number: nextNumber, happening: happening)
        nextNumber += 1
        let index = agenda.firstIndex { $0.time > time } ?? agenda.count
        agenda.insert(entry, at: index)
    }

    func schedule(_ happening: Happening, in delay: Duration) { schedule(happening, at: world.now + delay) }

    private func settle(_ loop: JobLoop) {
        repeat {
            if !loop.runUntilIdle() { return problem("tasks without end") }
            deliver()
            check()
        } while !loop.isIdle
    }

    /// Goes on to whatever comes next.
    private func step(_ loop: JobLoop) -> Bool {
        settle(loop)
        var next = min(agenda.first?.time ?? length, length)
        if let time = world.nextEvent { next = min(next, time) }
        if isAwake {
            if let time = world.nextPhoneEvent { next = min(next, time) }
            if let time = world.clock.nextDeadline?.offset { next = min(next, time) }
        }
        guard next < length else { return false }
        pass(to: next)
        world.carryOut(isAwake: isAwake)
        while let first = agenda.first, first.time <= world.now {
            agenda.removeFirst()
            if isAwake || first.happening.needsNoPhone {
                happen(first.happening)
            } else if first.happening.isKept {
                schedule(first.happening, at: nextWake + .seconds(1))
            }
            settle(loop)
        }
        return true
    }

    private var nextWake: Duration { agenda.first { $0.happening == .wake }?.time ?? length }

    private func pass(to time: Duration) {
        guard time > world.now else { return }
        if isAwake { figures.awake += time - world.now }
        world.now = time
        if isAwake, time > world.clock.now.offset { world.clock.advance(by: time - world.clock.now.offset) }
    }

    // MARK: - What happens

    private func happen(_ happening: Happening) {
        note { "\(happening)" }
        switch happening {
        case .wake:
            isAwake = true
            awakeSince = world.now
            world.clock.advance(by: world.now - world.clock.now.offset)
            host.wake()
            planSession()
        case .sleep(let isAnnounced):
            guard isAnnounced else {
                isAwake = false
                break
            }
            Task {
                await host.sleep()
                isAwake = false
                note { "asleep" }
            }
        case .attach(let network, let delay):
            world.attached = network
            pendingAnnouncements += 1
            if isAwake { schedule(.announcePath, in: delay) } else { schedule(.announcePath, at: nextWake + delay) }
        case .announcePath:
            pendingAnnouncements = max(pendingAnnouncements - 1, 0)
            announcePath()
        case .burst(let count): burst(count)
        case .setConditions(let isBad): setConditions(isBad: isBad)
        case .cut(let isOn):
            if !isOn { uncut() } else if let attached = world.attached { world.networks[attached].isCut = true }
        case .logIn: world.networks[3].isCaptive = false
        case .forgetMappings: world.forgetMappings()
        case .serverDown: world.isServerUp = false
        case .serverUp(let isRestarted):
            world.isServerUp = true
            if isRestarted { world.startServer() }
        case .serverMoves: world.serverNumber += 1
        case .publish: world.publishedNumber = world.serverNumber
        case .mood(let mood): resolver.mood = [.good, .slow, .failing, .silent][mood]
        case .stop: stop()
        case .start:
            wantsTunnel = true
            start()
        case .retry:
            hasRetry = false
            if wantsTunnel, host.status.status == .disconnected { start() }
        case .reconfigure:
            // It is `reasserting` meanwhile.
            goodSince = nil
            reconfigure()
        }
    }

    private func uncut() { for index in world.networks.indices { world.networks[index].isCut = false } }

    private func announcePath() {
        host.pathChanged(world.attached.map { world.networks[$0].path } ?? .unsatisfied)
    }

    private func setConditions(isBad: Bool) {
        guard let attached = world.attached else { return }
        let conditions =
            isBad
            ? LinkConditions(
                loss: random.nextDouble() * 0.7, duplication: random.nextDouble() * 0.2,
                corruption: random.nextDouble() * 0.1,
                delay: .milliseconds(5) ... .milliseconds(random.int(in: 50...4_000)))
            : LinkConditions(
                loss: random.nextDouble() * (configuration.connectivity.pingAddress == nil ? 0.003 : 0.03),
                duplication: random.nextDouble() * 0.05,
                delay: .milliseconds(5) ... .milliseconds(random.int(in: 10...400)))
        world.networks[attached].conditions = conditions
    }

    private func start() {
        guard !isStarting else { return }
        isStarting = true
        figures.starts += 1
        if policy == .everything { mustHold = true }
        Task {
            do {
                try await host.runner.start(configuration, leakPolicy: policy, profileID: "phone")
                note { "start: up" }
            } catch {
                note { "start: \(error)" }
                // It leaves nothing behind; whoever wants the tunnel tries again.
                mustHold = false
                scheduleRetry()
            }
            isStarting = false
        }
    }

    /// The system tries again for a user who wants the tunnel.
    private func scheduleRetry() {
        guard wantsTunnel, !hasRetry else { return }
        hasRetry = true
        schedule(.retry, in: .seconds(random.int(in: 2...30)))
    }

    private func stop() {
        wantsTunnel = false
        let number = nextStop
        nextStop += 1
        stopsBegun[number] = world.now
        Task {
            await host.stop(.userInitiated)
            stopsBegun[number] = nil
            mustHold = false
            note { "stop: done" }
        }
    }

    private func reconfigure() {
        var changed = configuration
        changed.mtu = 1280 + random.int(in: 0...100)
        let message = ReconfigureRequest(configuration: changed)
        pendingReconfigurations += 1
        Task {
            defer { pendingReconfigurations -= 1 }
            do {
                _ = try await MessageClient(channel: HostChannel(host: host), clock: world.clock).send(message)
                note { "reconfigured" }
            } catch {
                note { "reconfiguring: \(error)" }
            }
        }
    }

    // MARK: - Packets

    /// Programs send packets to somewhere in the Internet, where they are echoed.
    private func burst(_ count: Int) {
        let first = nextPacket
        for _ in 0..<count { sendPacket() }
        if let goodSince, world.now - goodSince > Self.bound(configuration), host.status.status == .connected,
            count >= 8
        {
            probeBurst = (world.now, first, false)
        }
    }

    private func sendPacket() {
        nextPacket += 1
        let id = nextPacket
        let payload =
            [UInt8(id >> 24), UInt8(id >> 16 & 255), UInt8(id >> 8 & 255), UInt8(id & 255)]
            + random.bytes(random.int(in: 0...60))
        let packet = PacketBuilder.udp(
            from: Self.inner.forPackets, port: 5_000, to: .v4(203, 0, 113, 7), port: 7, payload: payload)
        figures.sent += 1
        if host.platform.settings != nil {
            expectedAtServer[id] = packet
            expectedEcho[id] = VirtualNetwork().receive(packet)
            host.platform.inject(packet)
            world.plane?.pump()
        } else if host.platform.guardPolicy != nil {
            figures.blocked += 1
        } else if mustHold {
            problem("a packet left outside of the tunnel under \(policy)")
        }
    }

    private static func id(of packet: [UInt8]) -> UInt32? {
        guard packet.count >= 32 else { return nil }
        return packet[28..<32].reduce(0) { $0 << 8 | UInt32($1) }
    }

    private func arrived(_ packet: [UInt8]) {
        // Pings are the provider's own.
        guard packet.count > 9, packet[9] == PacketBuilder.IPProtocol.udp else { return }
        guard let id = Self.id(of: packet), let expected = expectedAtServer.removeValue(forKey: id) else {
            return problem("the server got a packet that nobody sent, or got it twice")
        }
        if expected != packet { problem("the server got a packet that was altered") }
    }

    private func deliver() {
        for packet in host.platform.takeDelivered() {
            guard let id = Self.id(of: packet), let expected = expectedEcho.removeValue(forKey: id) else {
                problem("a program got a packet that was not for it, or got it twice")
                continue
            }
            if expected != packet { problem("a program got a packet that was altered") }
            figures.echoed += 1
            if let burst = probeBurst, id >= burst.first { probeBurst?.echoed = true }
        }
    }

    // MARK: - What must hold

    /// The longest time from when all is good to `connected`.
    static func bound(_ configuration: WireGuardTunnelConfiguration) -> Duration {
        configuration.connectivity.timeToHeal + .seconds(configuration.resolutionTimeout) + .seconds(30)
    }

    private var isGood: Bool {
        guard isAwake, wantsTunnel, let attached = world.attached, world.isServerUp, resolver.mood == .good,
            world.publishedNumber == world.serverNumber,
            configuration.peers[0].endpoint?.hasPrefix("vpn") == true || world.serverNumber == 1
        else { return false }
        let network = world.networks[attached]
        // The path that the provider was told of is the one that there is.
        return !network.isCaptive && !network.isCut && network.conditions.loss <= 0.03
            && network.conditions.delay.upperBound <= .milliseconds(400)
            && pendingAnnouncements == 0 && pendingReconfigurations == 0
    }

    private func check() {
        if let plane = world.plane {
            if plane !== lastPlane { (lastPlane, lastSigns) = (plane, 0) }
            if plane.signsOfLife != lastSigns { (lastSigns, lastLife) = (plane.signsOfLife, world.now) }
        }
        let status = host.status.status
        if host.platform.settings != nil, policy == .enforcedRoutes { mustHold = true }
        if status == .disconnected, !isStarting, policy == .routeBased { mustHold = false }
        let silence = world.now - max(lastLife, awakeSince)
        if status != lastStatus { changed(to: status, after: silence) }
        if status == .connected, isAwake, silence > configuration.connectivity.timeToNotice {
            problem("connected although nothing was received for \(silence)")
        }
        if isGood {
            if goodSince == nil { goodSince = world.now }
        } else {
            goodSince = nil
        }
        if let goodSince, status != .connected, world.now - goodSince > Self.bound(configuration) {
            problem("not healed \(world.now - goodSince) after all was good: \(status)")
        }
        for begun in stopsBegun.values where isAwake && world.now - max(begun, awakeSince) > .seconds(25) {
            problem("a stop does not end")
        }
        if let burst = probeBurst, world.now - burst.since > .seconds(20) {
            if !burst.echoed, goodSince.map({ burst.since - $0 > Self.bound(configuration) }) ?? false {
                problem("connected on a good network, and of a burst nothing came back")
            }
            probeBurst = nil
        }
    }

    private func changed(to status: TunnelStatus, after silence: Duration) {
        note { "status \(status)\(host.status.error.map { ": \($0.code)" } ?? "")" }
        if lastStatus == .connected, status == .reasserting || status == .disconnecting, isAwake {
            if world.attached != nil { figures.worstNotice = max(figures.worstNotice, silence) }
            figures.outages += 1
        }
        if let goodSince, world.now - goodSince > Self.bound(configuration), lastStatus == .connected, wantsTunnel {
            problem("a healthy tunnel was called dead")
        }
        if status == .connected, let goodSince { figures.worstHeal = max(figures.worstHeal, world.now - goodSince) }
        if policy != .routeBased, lastStatus == .connected || lastStatus == .reasserting, wantsTunnel,
            status != .connected, status != .reasserting
        {
            problem("the tunnel gave up under \(policy)")
        }
        if status == .disconnected, wantsTunnel, !isStarting { scheduleRetry() }
        lastStatus = status
    }

    /// The user ends the tunnel at the end of the day, whatever state it is in.
    private func finish(_ loop: JobLoop) {
        guard figures.problems.isEmpty else { return }
        agenda = []
        if !isAwake { happen(.wake) }
        agenda = []
        stop()
        let end = world.now + .seconds(60)
        while !stopsBegun.isEmpty, world.now < end {
            settle(loop)
            guard !stopsBegun.isEmpty, let time = world.clock.nextDeadline?.offset else { break }
            pass(to: time)
        }
        if !stopsBegun.isEmpty { problem("the last stop does not end") }
        if host.status.status != .disconnected { problem("after the stop it is \(host.status.status)") }
        if host.platform.settings != nil || host.platform.guardPolicy != nil { problem("something stays in force") }
        if world.plane.map({ !$0.isClosed }) ?? false { problem("WireGuard still runs") }
    }

    // MARK: - The log

    func note(_ text: () -> String) {
        guard keepsLog else { return }
        let milliseconds = world.now.wholeNanoseconds / 1_000_000
        let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000)
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        log.append(
            "\(two(seconds / 3_600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)).\(rest) "
                + (isAwake ? "" : "(asleep) ") + text())
    }

    func problem(_ text: String) {
        note { "PROBLEM \(text)" }
        if figures.problems.count < 3 { figures.problems.append("seed \(seed): \(text)") }
    }
}

extension PhoneDay.Happening {
    /// Whether it happens while the phone sleeps as well.
    fileprivate var needsNoPhone: Bool {
        switch self {
        case .wake, .attach, .cut, .logIn, .forgetMappings, .serverDown, .serverUp, .serverMoves, .publish, .mood,
            .setConditions:
            true
        default: false
        }
    }

    /// Whether it waits for the phone to wake up, rather than not happening at all.
    fileprivate var isKept: Bool {
        switch self {
        case .announcePath, .retry, .start: true
        default: false
        }
    }
}
