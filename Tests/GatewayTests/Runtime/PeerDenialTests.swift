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

@Suite struct PeerDenialTests {
    private static let start = Date(timeIntervalSince1970: 1_767_225_600)

    private func peer(_ seed: UInt8, of user: UserID, expiresAfter seconds: Double? = nil) -> Peer {
        var generator = SeededGenerator(seed: UInt64(seed))
        return Peer(
            deviceID: DeviceID(using: &generator), userID: user,
            expiresAt: seconds.map { Self.start.addingTimeInterval($0) },
            publicKey: PrivateKey(using: &generator).publicKey, sources: [IPPrefix(host: .v4(10, 66, 0, seed))])
    }

    private func changes(_ peers: [Peer], removed: [DeviceID] = [], isComplete: Bool = false) -> Feed<Peer> {
        Feed(sequence: 7, isComplete: isComplete, changed: peers, removed: removed)
    }

    /// Whether exactly these devices are admitted.
    private func admits(_ peers: PeerReconciler, _ admitted: [Peer]) -> Bool {
        let keys = admitted.compactMap { peer in peer.publicKey.map { ($0, peer.deviceID) } }
        return peers.devices == Dictionary(uniqueKeysWithValues: keys)
            && Set(peers.network.desired.values.map(\.device)) == Set(admitted.map(\.deviceID))
            && Set(peers.network.desired.keys) == Set(admitted.flatMap(\.sources))
    }

    @Test("A device is denied from its expiry on, without the store, and admitted again if the clock is set back")
    func expiry() {
        var generator = SeededGenerator(seed: 1)
        let user = UserID(using: &generator)
        let (one, two) = (peer(2, of: user, expiresAfter: 10), peer(3, of: user))
        var peers = PeerReconciler()
        peers.update(with: changes([one, two], isComplete: true), denials: AccessDenials(), at: Self.start)
        #expect(admits(peers, [one, two]) && peers.isDue(at: Self.start.addingTimeInterval(10)))
        #expect(!peers.isDue(at: Self.start.addingTimeInterval(9.9)))
        peers.update(with: nil, denials: AccessDenials(), at: Self.start.addingTimeInterval(10))
        #expect(admits(peers, [two]) && peers.released == Set(one.sources))
        #expect(peers.leaving.values.contains(one.deviceID))
        #expect(!peers.isDue(at: Self.start.addingTimeInterval(11)) && peers.isDue(at: Self.start))
        peers.update(with: nil, denials: AccessDenials(), at: Self.start)
        #expect(admits(peers, [one, two]))
    }

    @Test("A denied password denies only the devices of its user's logins")
    func passwords() {
        var generator = SeededGenerator(seed: 1)
        let anna = UserID(using: &generator)
        var login = peer(2, of: anna)
        (login.publicKey, login.password) = (nil, StoredPassword(text: "hash"))
        let phone = peer(3, of: anna)
        var denials = AccessDenials()
        denials.passwords = [anna]
        var peers = PeerReconciler()
        peers.update(with: changes([login, phone], isComplete: true), denials: denials, at: Self.start)
        #expect(admits(peers, [phone]) && peers.password(of: login.deviceID) == nil)
        peers.update(with: changes([]), denials: AccessDenials(), at: Self.start)
        #expect(admits(peers, [login, phone]) && peers.password(of: login.deviceID) == login.password)
    }

    @Test("A denied device or user stays denied until the store was read after the denial has ended")
    func denials() {
        var generator = SeededGenerator(seed: 1)
        let (anna, bea) = (UserID(using: &generator), UserID(using: &generator))
        let (one, two, three) = (peer(2, of: anna), peer(3, of: anna), peer(4, of: bea))
        var peers = PeerReconciler()
        peers.update(with: changes([one, two, three], isComplete: true), denials: AccessDenials(), at: Self.start)
        var denials = AccessDenials()
        denials.devices = [one.deviceID]
        peers.update(with: changes([]), denials: denials, at: Self.start)
        #expect(admits(peers, [two, three]))
        denials.devices = []
        denials.users = [bea]
        // The store cannot be read.
        peers.update(with: nil, denials: denials, at: Self.start)
        #expect(admits(peers, [two]))
        // A change of a denied device does not admit it.
        peers.update(with: changes([three], removed: [one.deviceID]), denials: denials, at: Self.start)
        #expect(admits(peers, [two]))
        peers.update(with: changes([]), denials: AccessDenials(), at: Self.start)
        #expect(admits(peers, [two, three]))
    }

    @Test("The key and the address of an expired device are another device's in the same round")
    func handedOn() throws {
        var generator = SeededGenerator(seed: 1)
        let user = UserID(using: &generator)
        let one = peer(2, of: user, expiresAfter: 10)
        var other = peer(3, of: user)
        (other.publicKey, other.sources) = (one.publicKey, one.sources)
        var peers = PeerReconciler()
        peers.update(with: changes([one], isComplete: true), denials: AccessDenials(), at: Self.start)
        peers.update(with: changes([other]), denials: AccessDenials(), at: Self.start.addingTimeInterval(10))
        let key = try #require(one.publicKey)
        #expect(peers.devices == [key: other.deviceID] && peers.leaving == [key: one.deviceID])
        #expect(admits(peers, [other]) && peers.released == Set(one.sources))
    }
}
