// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// A gateway, two of its peers and a stranger, the datagrams between them, and an attacker that saw all of those and may send
/// any bytes from any address to any of them.
final class World {
    static let networks: [UInt8: UInt32] = [1: 0x0a00_0001, 2: 0x0a00_0002, 3: 0x0a00_0003]

    let clock = RunClock()
    let gateway: Host
    /// Has a session with the gateway from the start.
    let friend: Host
    /// Has a pre-shared key, and an initiation in flight that was not delivered.
    let guest: Host
    /// Has the gateway's public key, but is not its peer.
    private(set) lazy var stranger: Host = {
        let host = Host(number: 4, clock: clock)
        host.add(gateway, TestPacket.everything)
        return host
    }()
    let presharedKey: PresharedKey

    /// Genuine datagrams that have not arrived yet.
    private var wire: [(datagram: OutgoingDatagram, sender: Host)] = []
    /// Every genuine datagram that was ever sent, up to a bound.
    private(set) var captured: [OutgoingDatagram] = []
    /// Packets that were sent and may be delivered once, by receiver.
    private var outstanding: [PublicKey: Set<[UInt8]>] = [:]
    private(set) var delivered: [PublicKey: Int] = [:]
    private var sequence: UInt8 = 0
    /// The attacker's next datagrams, by receiver.
    private var batch: [(bytes: [UInt8], source: Endpoint)] = []
    private var batchTarget: Host?

    /// Handshakes take most of a run's time, so a setting can do without those that begin and end it.
    init(isUnderLoad: Bool, hasSession: Bool, hasGuest: Bool) {
        var limits = EngineLimits()
        if isUnderLoad {
            limits.handshakeBurst = 1
            limits.handshakesPerSecond = 1
            limits.rateLimitedSources = 8
        }
        limits.stagedPacketsPerPeer = 4
        limits.stagedBytes = 8192
        limits.outboxMessages = 8
        gateway = Host(number: 1, clock: clock, limits: limits)
        friend = Host(number: 2, clock: clock)
        guest = Host(number: 3, clock: clock)
        var random = SeededGenerator(seed: 99)
        presharedKey = PresharedKey(using: &random)
        addFriend()
        addGuest()
        friend.add(gateway, TestPacket.everything)
        guest.add(gateway, TestPacket.everything, presharedKey: presharedKey)
        if hasSession {
            send(from: friend, to: gateway, count: 40)
            exchange()
            require(delivered[gateway.publicKey] == 1, "two hosts alone cannot talk")
        }
        if isUnderLoad { greetForNothing() }
        guard hasGuest else { return }
        send(from: guest, to: gateway, count: 40)
        // It stays captured, and the guest will try again.
        wire.removeAll()
    }

    /// Puts the gateway under load: a sender that is not its peer repeats the same initiation.
    private func greetForNothing() {
        let somebody = Host(number: 5, clock: clock)
        somebody.add(gateway, TestPacket.everything)
        let packet = TestPacket.v4(from: 0x0a00_0005, to: 0x0a00_0001, count: 40, fill: 0)
        let greeting = (somebody.seal([packet], mtu: 1420) + somebody.drain()).map { ($0.bytes, somebody.endpoint) }
        for _ in 0..<3 { deliver(greeting, to: gateway) }
        require(gateway.engine.statistics.cookieRepliesSent == 1, "the third initiation of a stranger gets no cookie")
    }

    func addFriend() { gateway.add(friend, [address(2)]) }
    func addGuest() { gateway.add(guest, [address(3)], presharedKey: presharedKey) }

    private func address(_ number: UInt32) -> IPPrefix {
        TestPacket.prefix(IPAddress.v4(0x0a00_0000 | number), 32)
    }

    // MARK: Genuine traffic

    /// Sends a unique packet.
    @discardableResult
    func send(from sender: Host, to receiver: Host, count: Int) -> [UInt8] {
        func number(_ host: Host) -> UInt32 { UInt32(truncatingIfNeeded: host === gateway ? 1 : hostNumber(host)) }
        sequence &+= 1
        var packet = TestPacket.v4(
            from: 0x0a00_0000 | number(sender), to: 0x0a00_0000 | number(receiver), count: max(count, 24),
            fill: sequence)
        packet[20] = UInt8(truncatingIfNeeded: sentCount)
        packet[21] = UInt8(truncatingIfNeeded: sentCount >> 8)
        sentCount += 1
        outstanding[receiver.publicKey, default: []].insert(packet)
        post(sender.seal([packet], mtu: 1420), from: sender)
        post(sender.drain(), from: sender)
        return packet
    }

    private var sentCount = 0

    private func hostNumber(_ host: Host) -> Int { host === friend ? 2 : host === guest ? 3 : 4 }

    private func post(_ datagrams: [OutgoingDatagram], from sender: Host) {
        for datagram in datagrams {
            wire.append((datagram, sender))
            if captured.count < 256 { captured.append(datagram) }
        }
    }

    /// The stranger sends only in its own step.
    private var hosts: [Host] { [gateway, friend, guest] }

    /// Delivers all genuine datagrams and their replies, until none is in flight.
    func exchange() {
        for _ in 0..<12 {
            for host in hosts { post(host.drain(), from: host) }
            guard !wire.isEmpty else { return }
            let arriving = wire
            wire.removeAll()
            for (datagram, sender) in arriving {
                // Datagrams to the attacker's addresses are lost.
                guard let receiver = hosts.first(where: { $0.endpoint == datagram.endpoint })
                else { continue }
                deliver([(datagram.bytes, sender.endpoint)], to: receiver)
            }
        }
    }

    func advance(by duration: Duration) {
        clock.advance(by: duration)
        for host in hosts { host.runTimers() }
    }

    private func deliver(_ datagrams: [(bytes: [UInt8], source: Endpoint)], to receiver: Host) {
        let packets = receiver.receive(datagrams)
        for packet in packets {
            require(
                outstanding[receiver.publicKey]?.remove(packet) != nil,
                "a packet was delivered that was not sent, or twice: \(packet)")
        }
        delivered[receiver.publicKey, default: 0] += packets.count
        require(
            receiver.engine.statistics.packetsReceived == UInt64(delivered[receiver.publicKey] ?? 0),
            "the packet counter is wrong")
        post(receiver.drain(), from: receiver)
    }

    // MARK: The attacker

    /// Queues bytes from the attacker for one of the hosts; the two high bits of `place` say which.
    func attack(_ bytes: [UInt8], place: UInt8) {
        let target = target(place)
        if target !== batchTarget || batch.count >= 8 { flush() }
        batchTarget = target
        // A few addresses of the attacker's own, and those of the others.
        let source: Endpoint =
            switch place & 7 {
            case 0: gateway.endpoint
            case 1: friend.endpoint
            case 2: guest.endpoint
            case 3: Endpoint(address: .v6(0xfe80 << 48, UInt64(place)), port: 9, scopeID: 3)
            default: Endpoint(address: .v4(0xcb00_7100 | UInt32(place & 63)), port: 1000)
            }
        batch.append((bytes, source))
    }

    func target(_ place: UInt8) -> Host {
        switch place >> 6 {
        case 2: friend
        case 3: guest
        default: gateway
        }
    }

    /// Delivers the attacker's datagrams in one batch.
    func flush() {
        guard let target = batchTarget, !batch.isEmpty else { return }
        let datagrams = batch
        batch = []
        deliver(datagrams, to: target)
    }

    // MARK: At the end

    /// After everything, packets still get through both ways between the gateway and each of its peers.
    func checkUsable(withGuest: Bool) {
        gateway.engine.setUp(true, at: clock.now, wall: clock.wall)
        addFriend()
        addGuest()
        wire.removeAll()
        for peer in withGuest ? [friend, guest] : [friend] {
            // An attacker that forwards genuine datagrams from its own address becomes the peer's endpoint (section 2.1), and
            // may then drop everything. The fuzzer does not look for this.
            peer.engine.setEndpoint(gateway.endpoint, of: gateway.publicKey)
            let name = peer === friend ? "friend" : "guest"
            require(arrives(from: peer, to: gateway), "nothing from the \(name) arrives any more: \(story(peer))")
            require(arrives(from: gateway, to: peer), "nothing to the \(name) arrives any more: \(story(peer))")
        }
    }

    private func story(_ peer: Host) -> String {
        "\ngateway: \(gateway.engine.statistics)\npeer: \(peer.engine.statistics)"
    }

    private func arrives(from sender: Host, to receiver: Host) -> Bool {
        // A dead session is noticed after 15 s, and a lost initiation is repeated after 5 s.
        for _ in 0..<60 {
            let packet = send(from: sender, to: receiver, count: 100)
            exchange()
            if outstanding[receiver.publicKey]?.contains(packet) == false { return true }
            advance(by: .seconds(1))
            exchange()
        }
        return false
    }
}
