// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

@Suite struct PeerReconcilerTests {
    private var generator = SeededGenerator(seed: 16)

    private mutating func peer(
        _ id: DeviceID? = nil, key: PublicKey?, _ address: String, subnets: [String] = [], rules: [AccessRule] = []
    ) throws -> Peer {
        Peer(
            deviceID: id ?? DeviceID(using: &generator), publicKey: key,
            sources: try ([address] + subnets).map { try IPPrefix($0) }, rules: rules)
    }

    private func changes(
        _ peers: [Peer], removed: [DeviceID] = [], isComplete: Bool = false
    ) -> Feed<Peer> {
        Feed(sequence: 1, isComplete: isComplete, changed: peers, removed: removed)
    }

    /// A runtime's peers with a WireGuard and a network in memory.
    struct Made {
        static let now = Date(timeIntervalSince1970: 1_767_225_600)
        var peers = PeerReconciler()
        /// The peers of WireGuard, and the network's clients.
        private(set) var engine: [PublicKey: PeerReconciler.EnginePeer] = [:]
        private(set) var network: [IPPrefix: ClientAccess] = [:]
        /// WireGuard's peers at the time at which the network changed.
        private(set) var engineBefore: [PublicKey: PeerReconciler.EnginePeer] = [:]
        /// WireGuard's peers at the end of the network's update.
        private(set) var engineMeanwhile: [PublicKey: PeerReconciler.EnginePeer] = [:]
        private(set) var isUnchanged = true
        /// The addresses whose connections the network has ended in the last round.
        private(set) var released: Set<IPPrefix> = []

        init(loginTunnel: String? = nil) { peers = PeerReconciler(loginTunnel: loginTunnel) }

        /// - Parameter later: Changes of the store that are read while the network is updated.
        mutating func round(
            _ changes: Feed<Peer>, refused: [IPPrefix: TunnelServerError] = [:], failing: Bool = false,
            failingEngine: Bool = false, later: [Feed<Peer>] = []
        ) {
            peers.update(with: changes, denials: AccessDenials(), at: Self.now)
            isUnchanged = peers.isCurrent
            peers.withdraw()
            if failingEngine { _ = peers.engine.begin() } else { updateEngine() }
            engineBefore = engine
            let update = peers.network.begin()
            guard !failing else { return }
            if update.isComplete { network = [:] }
            for (prefix, peer) in update.changes { network[prefix] = peer.map(peers.access) }
            released = peers.released
            for changes in later {
                peers.update(with: changes, denials: AccessDenials(), at: Self.now)
                peers.withdraw()
                updateEngine()
            }
            engineMeanwhile = engine
            peers.network.finish(update)
            peers.recordReleased(released)
            peers.admit(without: refused)
            if !failingEngine { updateEngine() }
        }

        private mutating func updateEngine() {
            var present = engine
            peers.engine.update { update in
                if update.isComplete { present = [:] }
                for (key, peer) in update.changes { present[key] = peer }
                return [:]
            }
            engine = present
            peers.recordLeft()
        }
    }

    @Test("A device is in the network before it is a peer, and is no longer a peer before it leaves the network")
    mutating func comesAndGoes() throws {
        var made = Made()
        let key = PrivateKey(using: &generator).publicKey
        let (peer, address) = (try self.peer(key: key, "10.66.0.2"), try IPPrefix("10.66.0.2"))
        made.round(changes([peer]))
        #expect(made.engineBefore.isEmpty && Array(made.engine.keys) == [key])
        #expect(made.network == [address: ClientAccess()])
        #expect(made.peers.isCurrent && made.peers.devices == [key: peer.deviceID])
        made.round(changes([peer]))
        #expect(made.isUnchanged)
        made.round(changes([], removed: [peer.deviceID]))
        #expect(made.engineBefore.isEmpty && made.network.isEmpty && made.peers.devices.isEmpty)
    }

    @Test("While the network is updated, a removed device leaves WireGuard, and no device with its address joins")
    mutating func changesMeanwhile() throws {
        var made = Made()
        let one = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        let two = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.3")
        let heir = try peer(
            key: PrivateKey(using: &generator).publicKey, "10.66.0.2", rules: [AccessRule(.deny, transport: .udp)])
        made.round(changes([one]))
        made.round(
            changes([two]), later: [changes([], removed: [one.deviceID]), changes([heir])])
        #expect(made.engineMeanwhile.isEmpty && made.released.isEmpty)
        // The network still has the rules of the removed device.
        #expect(made.engine.keys.map { made.peers.devices[$0] } == [two.deviceID] && !made.peers.isCurrent)
        made.round(changes([]))
        #expect(made.released == [try IPPrefix("10.66.0.2")])
        #expect(made.network[try IPPrefix("10.66.0.2")]?.rules.count == 1)
        #expect(
            Set(made.engine.keys) == Set([two.publicKey, heir.publicKey].compactMap { $0 }) && made.peers.isCurrent)
    }

    @Test("A disabled device is not a peer and has no access")
    mutating func disabled() throws {
        var made = Made()
        let peer = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        made.round(changes([peer]))
        var disabled = peer
        disabled.publicKey = nil
        made.round(changes([disabled]))
        #expect(made.engine.isEmpty && made.network.isEmpty)
        made.round(changes([disabled]))
        #expect(made.isUnchanged)
    }

    @Test("Another key is another peer with the same access; other rules do not change the peer")
    mutating func changesOnly() throws {
        var made = Made()
        let (first, second) = (PrivateKey(using: &generator).publicKey, PrivateKey(using: &generator).publicKey)
        let peer = try self.peer(key: first, "10.66.0.2")
        made.round(changes([peer]))
        let network = made.network
        var rotated = peer
        rotated.publicKey = second
        made.round(changes([rotated]))
        #expect(made.engineBefore.isEmpty && Array(made.engine.keys) == [second] && made.network == network)
        let engine = made.engine
        rotated.rules = [AccessRule(.deny, transport: .udp, ports: [53...53])]
        made.round(changes([rotated]))
        #expect(made.engineBefore == engine && made.engine == engine)
        #expect(made.network.values.map(\.rules.count) == [1])
    }

    @Test("Another expiry of a device changes neither WireGuard nor the network")
    mutating func expiry() throws {
        var made = Made()
        var peer = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        made.round(changes([peer]))
        peer.expiresAt = Date(timeIntervalSince1970: 1_800_000_000)
        made.round(changes([peer]))
        #expect(made.isUnchanged && made.engine.count == 1 && made.network.count == 1)
    }

    @Test("An address that moves from one device to another belongs to the new device, in any order of the two")
    mutating func handedOn() throws {
        for _ in 0..<20 {
            var made = Made()
            let one = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
            made.round(changes([one]))
            let other = try peer(
                key: PrivateKey(using: &generator).publicKey, "10.66.0.2", rules: [AccessRule(.deny, transport: .udp)])
            made.round(changes([other], removed: [one.deviceID]))
            #expect(made.engineBefore.isEmpty && made.engine.keys.map { made.peers.devices[$0] } == [other.deviceID])
            #expect(made.network.values.map(\.rules.count) == [1])
        }
    }

    @Test(
        "An address that another device gets with the same access is released, and stays so while rounds fail; a new key releases none"
    )
    mutating func released() throws {
        var made = Made()
        let one = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        let two = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        made.round(changes([one]))
        #expect(made.released.isEmpty)
        var rotated = one
        rotated.publicKey = PrivateKey(using: &generator).publicKey
        made.round(changes([rotated]))
        #expect(made.released.isEmpty)
        made.round(changes([two], removed: [one.deviceID]), failing: true)
        made.round(changes([]))
        #expect(try made.released == [IPPrefix("10.66.0.2")] && made.peers.released.isEmpty)
        made.round(changes([]))
        #expect(made.released.isEmpty)
    }

    @Test("The first complete list releases the addresses of devices that were never seen, and no other list does")
    mutating func neverSeen() throws {
        let seen = try peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        var new = try peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.3")
        new.hasBeenSeen = false
        var made = Made()
        // Run a round before the store was read.
        made.round(changes([]))
        #expect(made.released.isEmpty)
        made.round(changes([seen, new], isComplete: true), failing: true)
        made.round(changes([]))
        #expect(try made.released == [IPPrefix("10.66.0.3")])
        made.round(changes([seen, new], isComplete: true))
        #expect(made.released.isEmpty && made.isUnchanged)
        var later = try peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.4")
        later.hasBeenSeen = false
        made.round(changes([later]))
        #expect(made.released.isEmpty && made.network.count == 3)
        // That the device was seen changes neither WireGuard nor the network.
        later.hasBeenSeen = true
        made.round(changes([later]))
        #expect(made.isUnchanged)
    }

    @Test(
        "A key that another device gets is removed before it is that device's peer, even with the same address",
        arguments: ["10.66.0.3", "10.66.0.2"])
    mutating func handedOnKey(_ address: String) throws {
        var made = Made()
        let key = PrivateKey(using: &generator).publicKey
        let (one, other) = (try self.peer(key: key, "10.66.0.2"), try self.peer(key: key, address))
        made.round(changes([one]))
        made.peers.update(
            with: changes([other], removed: [one.deviceID]), denials: AccessDenials(), at: Made.now)
        #expect(made.peers.leaving == [key: one.deviceID])
        made.round(changes([other]))
        #expect(made.engineBefore.isEmpty && made.peers.devices == [key: other.deviceID])
        #expect(try made.engine[key]?.sources == [IPPrefix(address)] && made.peers.leaving.isEmpty)
    }

    @Test("A key that another device gets stays away from WireGuard until WireGuard was without it")
    mutating func handedOnAfterFailure() throws {
        var made = Made()
        let key = PrivateKey(using: &generator).publicKey
        let (one, other) = (try self.peer(key: key, "10.66.0.2"), try self.peer(key: key, "10.66.0.2"))
        made.round(changes([one]))
        made.round(changes([other], removed: [one.deviceID]), failingEngine: true)
        #expect(made.peers.leaving == [key: one.deviceID] && !made.peers.isCurrent)
        made.round(changes([]))
        #expect(made.engineBefore.isEmpty && made.peers.leaving.isEmpty && made.peers.isCurrent)
        #expect(try made.engine[key]?.sources == [IPPrefix("10.66.0.2")])
    }

    @Test("A device that WireGuard received before its update failed is called later, unless the device was removed")
    mutating func admittedBeforeFailure() throws {
        var made = Made()
        let endpoint = Endpoint(address: .v4(198, 51, 100, 2), port: 3)
        let former = FormerEndpoint(endpoint, seenAt: Made.now)
        var (one, two) = (
            try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2"),
            try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.3")
        )
        (one.formerEndpoint, two.formerEndpoint) = (former, former)
        made.round(changes([one, two]), failingEngine: true)
        let keys = try [one, two].map { try #require($0.publicKey) }
        for key in keys { made.peers.recordAdmitted(key) }
        made.round(changes([], removed: [two.deviceID]))
        let called = made.peers.takeAdmitted()
        #expect(called.keys.map { $0 } == [keys[0]] && called[keys[0]]?.endpoint == endpoint)
        #expect(made.peers.takeAdmitted().isEmpty)
    }

    @Test("A complete list removes all other devices; a round that the network fails is repeated, removals too")
    mutating func complete() throws {
        var made = Made()
        let one = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        let two = try self.peer(key: PrivateKey(using: &generator).publicKey, "10.66.0.3")
        made.round(changes([one, two]))
        made.round(changes([two], isComplete: true), failing: true)
        // WireGuard has already removed the peer, but the network has not.
        #expect(made.engine.count == 1 && made.network.count == 2 && !made.peers.isCurrent)
        made.round(changes([]))
        #expect(made.network.keys.map(\.description) == ["10.66.0.3/32"] && made.peers.isCurrent)
        made.round(changes([one]), failing: true)
        #expect(made.engine.count == 1 && !made.peers.isCurrent)
        made.round(changes([]))
        #expect(made.engine.count == 2 && made.network.count == 2)
    }

    @Test("A changed subnet is another source of the same peer")
    mutating func subnets() throws {
        var made = Made()
        let key = PrivateKey(using: &generator).publicKey
        var peer = try self.peer(key: key, "10.66.0.2", subnets: ["192.168.9.0/24"])
        made.round(changes([peer]))
        peer.sources[1] = try IPPrefix("192.168.8.0/24")
        made.round(changes([peer]))
        #expect(try made.engineBefore[key]?.sources == [IPPrefix("10.66.0.2")])
        #expect(made.engine[key]?.sources == peer.sources)
        #expect(Set(made.network.keys.map(\.description)) == ["10.66.0.2/32", "192.168.8.0/24"])
    }

    @Test(
        "A source that the network excludes is none of the peer's until the network accepts it, and the device is named"
    )
    mutating func excluded() throws {
        var made = Made()
        let key = PrivateKey(using: &generator).publicKey
        let peer = try self.peer(key: key, "10.66.0.2", subnets: ["192.168.9.0/24"])
        let subnet = peer.sources[1]
        let refused = [subnet: TunnelServerError.subnet(subnet, "it is behind another client")]
        made.round(changes([peer]), refused: refused)
        #expect(try made.engine[key]?.sources == [IPPrefix("10.66.0.2")] && made.peers.isCurrent)
        let exclusions = made.peers.exclusions
        #expect(exclusions.map(\.device) == [peer.deviceID] && exclusions.first?.reason.contains("192.168.9.0") == true)
        made.round(changes([]))
        let update = UAPIPeerUpdate(key, try #require(made.engine[key]))
        #expect(update.replaceAllowedIPs && update.allowedIPs.count == 2 && made.peers.exclusions.isEmpty)
    }

    @Test("The state of a peer of WireGuard is two references")
    func size() {
        #expect(MemoryLayout<PeerReconciler.EnginePeer>.stride <= 2 * MemoryLayout<Int>.stride)
    }
}

@Suite struct TrafficLedgerTests {
    private var generator = SeededGenerator(seed: 17)

    private func count(received: UInt64, sent: UInt64) -> TrafficLedger.Count {
        TrafficLedger.Count(traffic: Device.Traffic(received: received, sent: sent))
    }

    @Test("Each byte is reported once, even after the key changed and the store failed")
    mutating func counts() {
        var ledger = TrafficLedger()
        let device = DeviceID(using: &generator)
        let (first, second) = (PrivateKey(using: &generator).publicKey, PrivateKey(using: &generator).publicKey)
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        ledger.record(count(received: 100, sent: 50), of: .key(first), device, at: now)
        #expect(ledger.drain().map(\.traffic) == [Device.Traffic(received: 100, sent: 50)])
        #expect(ledger.drain().isEmpty)
        ledger.record(count(received: 100, sent: 50), of: .key(first), device, at: now)
        #expect(ledger.drain().isEmpty)
        ledger.record(count(received: 110, sent: 50), of: .key(first), device, at: now)
        let lost = ledger.drain()
        ledger.forget(.key(first))
        ledger.record(count(received: 7, sent: 3), of: .key(second), device, at: now)
        ledger.requeue(lost)
        let told = ledger.drain()
        #expect(told.map(\.traffic) == [Device.Traffic(received: 17, sent: 3)])
        #expect(told.first?.lastSeenAt == now)
    }

    @Test("A device that only was sent something was not seen")
    mutating func unseen() {
        var ledger = TrafficLedger()
        let device = DeviceID(using: &generator)
        let key = PrivateKey(using: &generator).publicKey
        ledger.record(count(received: 0, sent: 148), of: .key(key), device, at: Date())
        #expect(ledger.drain().map(\.lastSeenAt) == [nil])
    }
}
