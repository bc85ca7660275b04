// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

@Suite("WireGuard device: long updates", .timeLimit(.minutes(2)))
struct LongUpdateTests {
    private let inner: [UInt32] = [0x0a0a_0001, 0x0a0a_0002]

    private func host(_ number: Int, on internet: MemoryInternet = MemoryInternet()) throws -> TestHost {
        try TestHost(
            on: internet, address: 0xc633_6401 + UInt32(number), inner: inner[number], seed: UInt64(number + 1))
    }

    /// An update that adds peers with one network each.
    private func addition(_ count: Int, seed: UInt64) throws -> UAPIDeviceUpdate {
        var random = SeededGenerator(seed: seed)
        var update = UAPIDeviceUpdate()
        update.peers = try (0..<count).map { number in
            var peer = UAPIPeerUpdate(publicKey: try #require(PublicKey(bytes: random.bytes(32))))
            peer.allowedIPs = [.add(try #require(IPPrefix(.v4(0x0b00_0000 + UInt32(number)), length: 32)))]
            return peer
        }
        return update
    }

    private func peerCount(_ host: TestHost) -> Int { host.device.transport.withEngine { $0.peerCount } }

    @Test("An update of ten thousand peers releases the engine after each small part", arguments: [false, true])
    func released(isReplacement: Bool) throws {
        let host = try host(0)
        defer { host.device.close() }
        if isReplacement { try host.device.apply(try addition(10_000, seed: 1)) }
        var update = try addition(10_000, seed: 2)
        update.replacePeers = isReplacement
        var counts = [peerCount(host)]
        try host.device.apply(update) { counts.append(peerCount(host)) }
        counts.append(peerCount(host))
        #expect(zip(counts, counts.dropFirst()).allSatisfy { ($0 - $1).magnitude <= WireGuardDevice.updateWork })
        #expect(counts.count > (isReplacement ? 30_000 : 20_000) / WireGuardDevice.updateWork)
        #expect(host.device.peers.map(\.publicKey) == update.peers.map(\.publicKey))
        #expect(host.device.peers.allSatisfy { $0.allowedIPs.count == 1 })
    }

    @Test(
        "Packets of a session arrive while a long update is in progress, even if it replaces the peers",
        arguments: [false, true])
    func traffic(isReplacement: Bool) throws {
        let internet = MemoryInternet()
        let (a, b) = (try host(0, on: internet), try host(1, on: internet))
        defer { closeAll(a, b) }
        try a.add(b)
        try b.add(a)
        try a.start()
        try b.start()
        unsafe b.tun.responder = { unsafe ICMPResponder().reply(to: $0) }
        func isAnswered(_ sequence: UInt16) -> Bool {
            let answer = Latch(count: 1)
            unsafe a.tun.onDeliver = { _ in answer.countDown() }
            defer { unsafe a.tun.onDeliver = nil }
            let request = PacketBuilder.icmpEcho(
                from: .v4(inner[0]), to: .v4(inner[1]), identifier: 7, sequence: sequence)
            return a.tun.inject(request) && answer.wait(timeout: patience)
        }
        #expect(isAnswered(0))
        var (pauses, answered): (UInt16, Int) = (0, 0)
        var update = try addition(1_000, seed: 3)
        update.replacePeers = isReplacement
        if isReplacement {
            var peer = UAPIPeerUpdate(publicKey: b.key.publicKey)
            peer.replaceAllowedIPs = true
            peer.allowedIPs = [.add(IPPrefix(host: .v4(inner[1])))]
            update.peers.insert(peer, at: 500)
        }
        try a.device.apply(update) {
            pauses += 1
            if isAnswered(pauses) { answered += 1 }
        }
        #expect(pauses >= 15 && answered == Int(pauses))
        #expect(a.device.engineStatistics.handshakesCompleted == 1)
    }

    @Test("A replacement of ordinary size never releases the engine")
    func small() throws {
        let host = try host(0)
        defer { host.device.close() }
        var update = try addition(300, seed: 8)
        update.replacePeers = true
        var pauses = 0
        for _ in 0..<3 { try host.device.apply(update) { pauses += 1 } }
        #expect(pauses == 0 && host.device.peers.map(\.publicKey) == update.peers.map(\.publicKey))
    }

    @Test("Another thread gets the engine between the parts of a long update")
    func fair() throws {
        let host = try host(0)
        defer { host.device.close() }
        let device = host.device
        let update = try addition(2_000, seed: 9)
        var removal = UAPIDeviceUpdate()
        removal.replacePeers = true
        let started = Latch(count: 1)
        let isDone = Mutex(false)
        let parts = Mutex(0)
        let observer = try LoopThread(name: "observer") {
            started.countDown()
            while !isDone.withLock({ $0 }) {
                let count = device.transport.withEngine { $0.peerCount }
                if (1..<2_000).contains(count) { parts.withLock { $0 += 1 } }
            }
        }
        defer {
            isDone.withLock { $0 = true }
            observer.join()
        }
        #expect(started.wait(timeout: patience))
        // On a busy machine, the observer may not run at all during one update.
        for _ in 0..<100 where parts.withLock({ $0 }) == 0 {
            try device.apply(update)
            try device.apply(removal)
        }
        #expect(parts.withLock { $0 } > 0)
    }

    @Test("A second update waits for the first one's last part, and so does a reader of all peers")
    func whole() throws {
        let host = try host(0)
        defer { host.device.close() }
        let first = try addition(1_000, seed: 4)
        var second = try addition(300, seed: 5)
        second.replacePeers = true
        let started = Latch(count: 2)
        let counts = Mutex<[Int]>([])
        var threads: [LoopThread] = []
        var foreign = 0
        let device = host.device
        let replacement = second
        try device.apply(first) {
            if threads.isEmpty {
                do {
                    threads = [
                        try LoopThread(name: "reader") {
                            started.countDown()
                            let count = device.uapiState.peers.count
                            counts.withLock { $0.append(count) }
                        },
                        try LoopThread(name: "writer") {
                            started.countDown()
                            do { try device.apply(replacement) } catch { Issue.record(error) }
                        },
                    ]
                } catch {
                    Issue.record(error)
                }
                #expect(started.wait(timeout: patience))
            }
            if device.peer(replacement.peers[0].publicKey) != nil { foreign += 1 }
        }
        for thread in threads { thread.join() }
        #expect(foreign == 0)
        // The reader comes before or after the second update.
        let read = counts.withLock { $0 }
        #expect(read == [1_000] || read == [300])
        #expect(device.peers.map(\.publicKey) == second.peers.map(\.publicKey))
    }

    @Test("An update beyond the budget is refused before any of it is applied")
    func refused() throws {
        var options = WireGuardDevice.Options()
        options.limits.peers = 500
        let host = try TestHost(
            on: MemoryInternet(), address: 0xc633_6401, inner: inner[0], seed: 1, options: options)
        defer { host.device.close() }
        try host.device.apply(try addition(500, seed: 6))
        var update = try addition(501, seed: 7)
        update.replacePeers = true
        var pauses = 0
        #expect(throws: WireGuardDeviceError.self) { try host.device.apply(update) { pauses += 1 } }
        #expect(pauses == 0 && host.device.peers.count == 500)
        update.peers.removeLast()
        try host.device.apply(update)
        #expect(host.device.peers.map(\.publicKey) == update.peers.map(\.publicKey))
    }
}
