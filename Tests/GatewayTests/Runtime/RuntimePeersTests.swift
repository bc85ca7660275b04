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

@Suite struct RuntimePeersTests {
    private var generator = SeededGenerator(seed: 16)

    private mutating func plan(
        _ id: DeviceID? = nil, key: PublicKey?, _ address: String, subnets: [String] = [], rules: [RuleContent] = []
    ) throws -> PeerPlan {
        PeerPlan(
            deviceID: id ?? DeviceID(using: &generator), publicKey: key, presharedKey: nil,
            addresses: [try IPAddress(address)], subnets: try subnets.map { try IPPrefix($0) }, rules: rules)
    }

    private func changes(
        _ peers: [PeerPlan], removed: [DeviceID] = [], isComplete: Bool = false
    ) -> PeerChanges {
        PeerChanges(sequence: 1, isComplete: isComplete, peers: peers, removed: removed, serverKeysChanged: false)
    }

    @Test("A device comes into the network before it is a peer, and is no peer before it leaves the network")
    mutating func comesAndGoes() throws {
        var peers = RuntimePeers()
        let key = PrivateKey(using: &generator).publicKey
        let plan = try plan(key: key, "10.66.0.2")
        let coming = peers.take(changes([plan]))
        #expect(coming.leavingKeys.isEmpty && coming.peers.count == 1)
        #expect(coming.network == [ClientChange(addresses: plan.addresses, rules: ClientRules())])
        #expect(peers.take(changes([plan])).isEmpty)
        let going = peers.take(changes([], removed: [plan.deviceID]))
        #expect(going.leavingKeys == [plan.deviceID: key] && going.peers.isEmpty)
        #expect(going.network == [ClientChange(addresses: plan.addresses, rules: nil)])
        #expect(peers.devices.isEmpty)
    }

    @Test("One that is disabled is as good as gone, whatever else is said of it")
    mutating func disabled() throws {
        var peers = RuntimePeers()
        let plan = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        _ = peers.take(changes([plan]))
        var disabled = plan
        disabled.publicKey = nil
        #expect(peers.take(changes([disabled])).leavingKeys.count == 1)
        #expect(peers.take(changes([disabled])).isEmpty)
    }

    @Test("Another key is another peer with the same sources; other rules are none of WireGuard's business")
    mutating func changesOnly() throws {
        var peers = RuntimePeers()
        let (first, second) = (PrivateKey(using: &generator).publicKey, PrivateKey(using: &generator).publicKey)
        let plan = try plan(key: first, "10.66.0.2")
        _ = peers.take(changes([plan]))
        var rotated = plan
        rotated.publicKey = second
        let work = peers.take(changes([rotated]))
        #expect(work.leavingKeys == [plan.deviceID: first] && work.network.isEmpty)
        #expect(work.peers[plan.deviceID]?.publicKey == second)
        rotated.rules = [RuleContent(.deny, transport: .udp, ports: [53...53])]
        let ruled = peers.take(changes([rotated]))
        #expect(ruled.leavingKeys.isEmpty && ruled.peers.isEmpty && ruled.network.count == 1)
        #expect(ruled.network.first?.rules?.from.count == 1)
    }

    @Test("An address that one device gives up and another gets ends as the other's, in whatever order they come")
    mutating func handedOn() throws {
        for _ in 0..<20 {
            var peers = RuntimePeers()
            let one = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
            _ = peers.take(changes([one]))
            let other = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
            let work = peers.take(changes([other], removed: [one.deviceID]))
            #expect(work.network.map { $0.rules == nil } == [true, false])
        }
    }

    @Test("Of a complete list whatever is not in it goes; what was not done is done again")
    mutating func complete() throws {
        var peers = RuntimePeers()
        let one = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.2")
        let two = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.3")
        _ = peers.take(changes([one, two]))
        let work = peers.take(changes([two], isComplete: true))
        #expect(work.leavingKeys.keys.sorted { "\($0)" < "\($1)" } == [one.deviceID])
        let again = peers.take(changes([one, two], isComplete: true))
        #expect(again.peers.count == 1)
        peers.forget(again)
        #expect(peers.take(changes([one, two], isComplete: true)).peers.count == 1)
    }

    @Test("A subnet that comes or goes is another source of the same peer")
    mutating func subnets() throws {
        var peers = RuntimePeers()
        var plan = try plan(key: PrivateKey(using: &generator).publicKey, "10.66.0.2", subnets: ["192.168.9.0/24"])
        _ = peers.take(changes([plan]))
        plan.subnets = [try IPPrefix("192.168.8.0/24")]
        let work = peers.take(changes([plan]))
        #expect(work.leavingKeys.isEmpty && work.network.count == 2)
        #expect(work.network.first?.subnets.map(\.description) == ["192.168.9.0/24"])
        let update = try #require(work.additions(without: Set(plan.subnets)).first?.peers.first)
        let own = try IPPrefix("10.66.0.2")
        #expect(update.replaceAllowedIPs && update.allowedIPs == [.add(own)])
    }

    @Test("Rules of both directions keep their order, and one of ICMP with ports allows nothing and denies all of it")
    func rules() throws {
        let rules = ClientRules([
            RuleContent(.allow, transport: .tcp, ports: [80...80]), RuleContent(.deny, direction: .in),
            RuleContent(.deny, transport: .icmp, ports: [1...1]), RuleContent(.allow, transport: .icmp, ports: [1...1]),
        ])
        #expect(rules.from.map(\.action) == [.allow, .deny] && rules.from[1].transport == .icmp)
        #expect(rules.towards.map(\.action) == [.deny])
    }
}

@Suite struct TrafficLedgerTests {
    private var generator = SeededGenerator(seed: 17)

    private func count(received: UInt64, sent: UInt64) -> TrafficLedger.Count {
        TrafficLedger.Count(traffic: Device.Traffic(received: received, sent: sent))
    }

    @Test("What is counted is told once, also across another key and a store that did not listen")
    mutating func counts() {
        var ledger = TrafficLedger()
        let device = DeviceID(using: &generator)
        let (first, second) = (PrivateKey(using: &generator).publicKey, PrivateKey(using: &generator).publicKey)
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        ledger.take(count(received: 100, sent: 50), of: .key(first), device, at: now)
        #expect(ledger.drain().map(\.traffic) == [Device.Traffic(received: 100, sent: 50)])
        #expect(ledger.drain().isEmpty)
        ledger.take(count(received: 100, sent: 50), of: .key(first), device, at: now)
        #expect(ledger.drain().isEmpty)
        ledger.take(count(received: 110, sent: 50), of: .key(first), device, at: now)
        let lost = ledger.drain()
        ledger.forget(.key(first))
        ledger.take(count(received: 7, sent: 3), of: .key(second), device, at: now)
        ledger.putBack(lost)
        let told = ledger.drain()
        #expect(told.map(\.traffic) == [Device.Traffic(received: 17, sent: 3)])
        #expect(told.first?.lastSeenAt == now)
    }

    @Test("A device that only was sent something was not seen")
    mutating func unseen() {
        var ledger = TrafficLedger()
        let device = DeviceID(using: &generator)
        let key = PrivateKey(using: &generator).publicKey
        ledger.take(count(received: 0, sent: 148), of: .key(key), device, at: Date())
        #expect(ledger.drain().map(\.lastSeenAt) == [nil])
    }
}
