// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnelTesting
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite struct AccessGateTests {
    private static let start = Date(timeIntervalSince1970: 1_767_225_600)

    private func peer(_ seed: UInt64, of user: UserID, expiresAfter seconds: Double? = nil) -> Peer {
        var generator = SeededGenerator(seed: seed)
        return Peer(
            deviceID: DeviceID(using: &generator), userID: user,
            expiresAt: seconds.map { Self.start.addingTimeInterval($0) },
            publicKey: PrivateKey(using: &generator).publicKey, sources: [])
    }

    private func changes(_ peers: [Peer], removed: [DeviceID] = [], isComplete: Bool = false) -> Feed<Peer> {
        Feed(sequence: 7, isComplete: isComplete, changed: peers, removed: removed)
    }

    @Test("A device is denied from its expiry on, without the store, and admitted again if the clock is set back")
    func expiry() {
        var generator = SeededGenerator(seed: 1)
        let user = UserID(using: &generator)
        let (one, two) = (peer(2, of: user, expiresAfter: 10), peer(3, of: user))
        var gate = AccessGate()
        let all = gate.update(changes([one, two], isComplete: true), denials: AccessDenials(), at: Self.start)
        #expect(
            all.isComplete && all.sequence == 7 && Set(all.changed.map(\.publicKey)) == [one.publicKey, two.publicKey])
        #expect(
            !gate.isDue(at: Self.start.addingTimeInterval(9.9)) && gate.isDue(at: Self.start.addingTimeInterval(10)))
        let out = gate.update(nil, denials: AccessDenials(), at: Self.start.addingTimeInterval(10))
        #expect(!out.isComplete && out.changed.map(\.deviceID) == [one.deviceID] && out.changed[0].publicKey == nil)
        #expect(!gate.isDue(at: Self.start.addingTimeInterval(11)) && gate.isDue(at: Self.start))
        #expect(gate.update(nil, denials: AccessDenials(), at: Self.start).changed == [one])
    }

    @Test("A denied password denies the devices of its user's logins, and no others")
    func passwords() {
        var generator = SeededGenerator(seed: 1)
        let anna = UserID(using: &generator)
        var login = peer(2, of: anna)
        (login.publicKey, login.password) = (nil, StoredPassword(text: "hash"))
        let phone = peer(3, of: anna)
        var denials = AccessDenials()
        denials.passwords = [anna]
        var gate = AccessGate()
        let peers = gate.update(changes([login, phone], isComplete: true), denials: denials, at: Self.start).changed
        #expect(peers.first { $0.deviceID == login.deviceID }?.password == .some(nil))
        #expect(peers.first { $0.deviceID == phone.deviceID } == phone)
        #expect(gate.update(changes([]), denials: AccessDenials(), at: Self.start).changed == [login])
    }

    @Test("A denied device or user stays denied until the store was read after the denial has ended")
    func denials() {
        var generator = SeededGenerator(seed: 1)
        let (anna, bea) = (UserID(using: &generator), UserID(using: &generator))
        let (one, two, three) = (peer(2, of: anna), peer(3, of: anna), peer(4, of: bea))
        var gate = AccessGate()
        _ = gate.update(changes([one, two, three], isComplete: true), denials: AccessDenials(), at: Self.start)
        var denials = AccessDenials()
        denials.devices = [one.deviceID]
        let first = gate.update(changes([]), denials: denials, at: Self.start)
        #expect(first.changed.map(\.deviceID) == [one.deviceID] && first.changed[0].publicKey == nil)
        denials.devices = []
        denials.users = [bea]
        // The store cannot be read.
        let second = gate.update(nil, denials: denials, at: Self.start)
        #expect(second.changed.map(\.deviceID) == [three.deviceID] && second.changed[0].publicKey == nil)
        // A change of a denied device does not admit it.
        let third = gate.update(changes([three], removed: [one.deviceID]), denials: denials, at: Self.start)
        #expect(third.changed.map(\.publicKey) == [nil] && third.removed == [one.deviceID])
        #expect(gate.update(changes([]), denials: AccessDenials(), at: Self.start).changed == [three])
    }
}
