// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("WireGuard device", .timeLimit(.minutes(2)))
struct WireGuardDeviceTests {
    private let left: UInt32 = 0xc633_6401
    private let right: UInt32 = 0xc633_6402
    private let leftInner: UInt32 = 0x0a0a_0001
    private let rightInner: UInt32 = 0x0a0a_0002

    private func pair(_ internet: MemoryInternet = MemoryInternet()) throws -> (TestHost, TestHost) {
        let a = try TestHost(on: internet, address: left, inner: leftInner, seed: 1)
        let b = try TestHost(on: internet, address: right, inner: rightInner, seed: 2)
        try a.add(b)
        try b.add(a, endpoint: false)
        return (a, b)
    }

    /// Like ``pair(_:)``, with `a` bound to this port.
    private func startedPair(
        _ internet: MemoryInternet = MemoryInternet(), port: UInt16 = 51_820
    ) throws -> (TestHost, TestHost) {
        let (a, b) = try pair(internet)
        try a.start(port: port)
        try b.start()
        return (a, b)
    }

    private func echoRequest(_ sequence: UInt16, from source: UInt32, to destination: UInt32) -> [UInt8] {
        PacketBuilder.icmpEcho(from: .v4(source), to: .v4(destination), identifier: 7, sequence: sequence)
    }

    /// Sends pings from `a` and waits for as many answers as were sent.
    private func ping(_ a: TestHost, _ b: TestHost, count: Int) throws {
        unsafe b.tun.responder = { unsafe ICMPResponder().reply(to: $0) }
        let answers = Latch(count: count)
        unsafe a.tun.onDeliver = { _ in answers.countDown() }
        for sequence in 0..<count {
            #expect(a.tun.inject(echoRequest(UInt16(sequence), from: leftInner, to: rightInner)))
        }
        #expect(answers.wait(timeout: patience), "\(answers.count) of \(count) answers are missing")
        unsafe a.tun.onDeliver = nil
    }

    @Test("Packets that wait for the handshake arrive, and so do their answers")
    func pings() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        try ping(a, b, count: 50)
        let peer = try #require(a.device.peer(b.key.publicKey))
        #expect(peer.hasSession)
        #expect(peer.lastHandshake != nil)
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
        #expect(b.device.engineStatistics.handshakesCompleted == 1)
        #expect(b.device.peer(a.key.publicKey)?.endpoint?.address == IPAddress.v4(left))
    }

    @Test("Reconfiguring a running device drops no session that it need not drop")
    func liveReconfiguration() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        try ping(a, b, count: 3)
        // The same key, another mark, more allowed IPs, a pre-shared key for later, the same port again.
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(a.key)
        update.listenPort = 51_820
        update.fwMark = 5
        var peer = UAPIPeerUpdate(publicKey: b.key.publicKey)
        var random = SeededGenerator(seed: 9)
        peer.presharedKey = .set(PresharedKey(using: &random))
        peer.replaceAllowedIPs = true
        peer.allowedIPs = [.add(try #require(IPPrefix(.v4(0x0a0a_0000), length: 16)))]
        peer.persistentKeepalive = 25
        update.peers = [peer]
        try a.device.apply(update)
        try ping(a, b, count: 3)
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
        #expect(a.device.uapiState.fwMark == 5)
    }

    @Test("A rebind moves the client's port under the session, which continues, and the server's device reports it")
    func roaming() throws {
        let (a, b) = try startedPair(port: 0)
        defer { closeAll(a, b) }
        try ping(a, b, count: 3)
        let before = try #require(b.device.peer(a.key.publicKey)?.endpoint)
        let roamed = Event()
        b.device.onRoaming { roamed.signal() }
        try ping(a, b, count: 1)
        #expect(!roamed.hasHappened)
        try a.device.rebind()
        try ping(a, b, count: 3)
        #expect(roamed.wait(timeout: patience))
        let after = try #require(b.device.peer(a.key.publicKey)?.endpoint)
        #expect(before.port != after.port)
        #expect(after.port == a.device.listenPort)
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
    }

    @Test("A port in use changes nothing and is reported")
    func takenPort() throws {
        let internet = MemoryInternet()
        let (a, b) = try startedPair(internet)
        defer { closeAll(a, b) }
        let squatter = try a.network.bind(port: 999, mark: 0)
        defer { squatter.close() }
        var update = UAPIDeviceUpdate()
        update.listenPort = 999
        update.fwMark = 77
        update.replacePeers = true
        let failure = #expect(throws: WireGuardDeviceError.self) { try a.device.apply(update) }
        #expect(failure?.errno == EADDRINUSE)
        #expect(a.device.listenPort == 51_820)
        #expect(a.device.uapiState.fwMark == 0)
        #expect(a.device.peers.count == 1)
        try ping(a, b, count: 3)
    }

    @Test("A device whose port is in use reports it, and works once the port is free")
    func portInUseAtStart() throws {
        let (a, b) = try pair()
        defer { closeAll(a, b) }
        var squatter: DatagramSockets? = try a.network.bind(port: 51_820, mark: 0)
        try a.start()
        try b.start()
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenFailure != nil })
        #expect(a.device.listenFailure?.error.errno == EADDRINUSE && a.device.listenPort == nil)
        squatter?.close()
        squatter = nil
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenPort == 51_820 })
        #expect(a.device.listenFailure == nil)
        try ping(a, b, count: 3)
    }

    @Test("The failure of a port in use has a new time after the interface was down")
    func portInUseAfterDown() throws {
        let (a, _) = try pair()
        defer { a.device.close() }
        let squatter = try a.network.bind(port: 51_820, mark: 0)
        defer { squatter.close() }
        try a.start()
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenFailure != nil })
        let first = try #require(a.device.listenFailure).since
        try a.tun.setUp(false)
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenFailure == nil })
        try a.tun.setUp(true)
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenFailure != nil })
        #expect(try #require(a.device.listenFailure).since > first)
    }

    @Test("A device that a failed rebind leaves without sockets binds them again by itself, and its session continues")
    func failedRebind() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        try ping(a, b, count: 3)
        let addresses = a.network.addresses
        a.network.move(to: [IPAddress]())
        #expect(throws: WireGuardDeviceError.self) { try a.device.rebind() }
        #expect(a.device.listenPort == nil && a.device.listenFailure != nil)
        a.network.move(to: addresses)
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenPort == 51_820 })
        #expect(a.device.listenFailure == nil)
        try ping(a, b, count: 3)
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
    }

    @Test("Down ends sessions and sockets; up starts again")
    func downAndUp() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        try ping(a, b, count: 3)
        try a.tun.setUp(false)
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenPort == nil })
        #expect(a.device.peer(b.key.publicKey)?.hasSession == false)
        try a.tun.setUp(true)
        try #require(waitUntil(timeout: patience, pollEvery: .milliseconds(2)) { a.device.listenPort == 51_820 })
        try ping(a, b, count: 3)
        #expect(a.device.engineStatistics.handshakesCompleted == 2)
    }

    @Test("The MTU of the interface bounds padding from the next packet on")
    func mtu() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        try a.tun.setMTU(9000)
        try ping(a, b, count: 1)
        let arrived = Event()
        unsafe b.tun.responder = nil
        unsafe b.tun.onDeliver = { packet in
            if packet.count == 8990 { arrived.signal() }
        }
        let big = PacketBuilder.udp(
            from: .v4(leftInner), port: 1, to: .v4(rightInner), port: 2,
            payload: [UInt8](repeating: 7, count: 8990 - 28))
        #expect(a.tun.inject(big))
        #expect(arrived.wait(timeout: patience))
    }

    @Test("Removing the interface closes the device; waiting for that ends")
    func removal() throws {
        let (a, b) = try pair()
        defer { b.device.close() }
        try a.start()
        a.tun.removeDevice()
        #expect(a.device.waitUntilClosed() == .interfaceRemoved)
        #expect(throws: WireGuardDeviceError(.closed)) { try a.device.apply(UAPIDeviceUpdate()) }
    }

    @Test("A device can be closed before the start, right after it, twice, and by a close handler")
    func closing() throws {
        let internet = MemoryInternet()
        let idle = try TestHost(on: internet, address: left, inner: leftInner, seed: 11)
        idle.device.close()
        #expect(throws: WireGuardDeviceError.self) { try idle.device.start() }

        for seed in 20..<40 as Range<UInt64> {
            let host = try TestHost(on: internet, address: left + UInt32(seed), inner: leftInner, seed: seed)
            let closed = Event()
            host.device.onClose { _ in
                host.device.close()
                closed.signal()
            }
            try host.start()
            host.device.close()
            host.device.close()
            #expect(closed.wait(timeout: patience))
        }
    }

    @Test("A device that is dropped without being closed ends its threads and gives everything back")
    func dropped() throws {
        let internet = MemoryInternet()
        weak var gone: WireGuardDevice?
        let network = internet.attach([.v4(left)])
        do {
            let device = try WireGuardDevice(tun: try MemoryTun(name: "dropped", mtu: 1420), network: network)
            var update = UAPIDeviceUpdate()
            update.listenPort = 777
            try device.apply(update)
            try device.start()
            #expect(device.listenPort == 777)
            gone = device
        }
        #expect(gone == nil)
        // The port is free again.
        try network.bind(port: 777, mark: 0).close()
    }

    @Test("A second close waits for the first")
    func closedByTwo() throws {
        let internet = MemoryInternet()
        for seed in 50..<60 as Range<UInt64> {
            let host = try TestHost(on: internet, address: left + UInt32(seed), inner: leftInner, seed: seed)
            try host.start()
            host.tun.removeDevice()
            host.device.close()
            #expect(host.device.closeReason != nil)
            // All threads have ended, so the port is free.
            try host.network.bind(port: 51_820, mark: 0).close()
        }
    }

    @Test("A port in use at the start does not prevent configuring peers, and is tried again")
    func lateSockets() throws {
        let (a, b) = try pair()
        defer { closeAll(a, b) }
        let squatter = try a.network.bind(port: 51_820, mark: 0)
        try a.start()
        try b.start()
        var update = UAPIDeviceUpdate()
        update.peers = [UAPIPeerUpdate(publicKey: PublicKey(Bytes32(w0: 9, w1: 9, w2: 9, w3: 9)))]
        try a.device.apply(update)
        #expect(a.device.listenPort == nil)
        #expect(a.device.peers.count == 2)
        squatter.close()
        try a.device.apply(update)
        #expect(a.device.listenPort == 51_820)
        try ping(a, b, count: 3)
    }

    @Test("Naming the port that the system chose keeps the sockets")
    func pinnedPort() throws {
        let (a, b) = try startedPair(port: 0)
        defer { closeAll(a, b) }
        try ping(a, b, count: 3)
        let port = try #require(a.device.listenPort)
        var update = UAPIDeviceUpdate()
        update.listenPort = port
        try a.device.apply(update)
        #expect(a.device.listenPort == port)
        try ping(a, b, count: 3)
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
    }

    @Test("Up and down many times over, with traffic, leaves a device that works")
    func flapping() throws {
        let (a, b) = try startedPair()
        defer { closeAll(a, b) }
        for round in 0..<100 {
            _ = a.tun.inject(echoRequest(UInt16(round), from: leftInner, to: rightInner))
            let isUp = round % 2 == 1
            try a.tun.setUp(isUp)
            try #require(
                waitUntil(timeout: patience, pollEvery: .milliseconds(1)) { (a.device.listenPort != nil) == isUp })
        }
        try ping(a, b, count: 5)
    }

    @Test("An IPv4-only host works (defect s), and so does an IPv6-only one")
    func singleFamily() throws {
        let internet = MemoryInternet()
        let (a, b) = try pair(internet)
        defer { closeAll(a, b) }
        a.network.move(to: [.v6(0x2001_0db8_0000_0000, 1)])
        b.network.move(to: [.v6(0x2001_0db8_0000_0000, 2)])
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: b.key.publicKey)
        peer.endpoint = Endpoint(address: .v6(0x2001_0db8_0000_0000, 2), port: 51_820)
        update.peers = [peer]
        try a.device.apply(update)
        try a.start()
        try b.start()
        try ping(a, b, count: 3)
        #expect(a.device.peer(b.key.publicKey)?.endpoint?.address.family == .v6)
    }
}
