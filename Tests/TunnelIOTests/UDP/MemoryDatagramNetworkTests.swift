// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("An internet in memory")
struct MemoryDatagramNetworkTests {
    private let internet = MemoryInternet(queueLimit: 8)

    @Test("Datagrams arrive with both ends", arguments: [false, true])
    func delivery(isIPv6: Bool) throws {
        let a = IPAddress(isIPv6: isIPv6, high: isIPv6 ? 1 : 0, low: 10)
        let b = IPAddress(isIPv6: isIPv6, high: isIPv6 ? 1 : 0, low: 20)
        let first = try internet.attach([a]).bind(port: 0, mark: 0)
        let second = try internet.attach([b]).bind(port: 51_820, mark: 0)
        let sender = try #require(first.all.first)
        let receiver = try #require(second.all.first)
        #expect(first.all.count == 1 && sender.isIPv6 == isIPv6)
        #expect(!isReadable(receiver.readiness, milliseconds: 0))

        let sent = (1...5).map { pattern($0 * 300, seed: $0) }
        let outgoing = try batch(of: sent, to: Endpoint(address: b, port: 51_820))
        #expect(try sender.send(outgoing, in: 0..<5) == DatagramSendResult(sent: 5, bytes: 4500))
        #expect(isReadable(receiver.readiness, milliseconds: 0))

        // A batch of two at a time.
        let received = try receive(5, from: receiver, slots: 2)
        #expect(received.map(\.bytes) == sent)
        for datagram in received {
            var expected = Endpoint(address: a, port: sender.port)
            (expected.source.high, expected.source.low, expected.source.interfaceIndex) = (b.high, b.low, 1)
            #expect(datagram.endpoint.hasSameEnds(as: expected))
        }
        #expect(!isReadable(receiver.readiness, milliseconds: 0))
        #expect(internet.statistics.delivered == 5)
    }

    @Test("Hosts have addresses given as text, and a wrong one is an error that changes nothing")
    func text() throws {
        let host = try internet.attach("192.0.2.1", "2001:db8::1")
        #expect(host.addresses == [.v4(192, 0, 2, 1), .v6(0x2001_0db8 << 32, 1)])
        #expect(throws: AddressTextError.self) { try host.move(to: "192.0.2.2", "192.0.2") }
        #expect(host.addresses.count == 2)
        try host.move(to: "192.0.2.2")
        #expect(host.addresses == [.v4(192, 0, 2, 2)])
        #expect(throws: AddressTextError.self) { try internet.attach("example.com") }
    }

    @Test("A full queue drops and counts")
    func overflow() throws {
        let sockets = try internet.attach([.v4(1)]).bind(port: 7, mark: 0)
        let socket = try #require(sockets.v4)
        let outgoing = try batch(of: (0..<12).map { [$0] }, to: Endpoint(address: .v4(1), port: 7))
        #expect(try socket.send(outgoing, in: 0..<12).sent == 12)
        #expect(try receive(8, from: socket).map(\.bytes) == (0..<8).map { [$0] })
        #expect(internet.statistics.overflowed == 4)
        #expect(try socket.send(outgoing, in: 8..<12).sent == 4)
        #expect(try receive(4, from: socket).map(\.bytes) == (8..<12).map { [$0] })
    }

    @Test("The filter swallows, changes and readdresses")
    func filter() throws {
        let a = try #require(try internet.attach([.v4(1)]).bind(port: 7, mark: 3).v4)
        let b = try #require(try internet.attach([.v4(2)]).bind(port: 7, mark: 0).v4)
        internet.setFilter { datagram in
            guard datagram.bytes != [1], datagram.mark == 3 else { return false }
            datagram.source = .v4(99)
            datagram.sourcePort = 4444
            datagram.bytes.append(0)
            return true
        }
        _ = try a.send(batch(of: [[1], [2]], to: Endpoint(address: .v4(2), port: 7)), in: 0..<2)
        let received = try receive(1, from: b)
        #expect(received.map(\.bytes) == [[2, 0]])
        #expect(received.first?.endpoint.address.low == 99 && received.first?.endpoint.port == 4444)
        #expect(internet.statistics.filtered == 1)
        try a.setMark(4)
        _ = try a.send(batch(of: [[2]], to: Endpoint(address: .v4(2), port: 7)), in: 0..<1)
        #expect(internet.statistics.filtered == 2)
    }

    @Test("A host that moves sends from its new address and is found there, sockets and all")
    func roaming() throws {
        let phone = internet.attach([.v4(1)])
        let a = try #require(try phone.bind(port: 7, mark: 0).v4)
        let b = try #require(try internet.attach([.v4(2)]).bind(port: 7, mark: 0).v4)
        let toB = Endpoint(address: .v4(2), port: 7)
        phone.move(to: [.v4(50)])
        var stale = toB
        stale.source.low = 1
        _ = try a.send(batch(of: [[1]], to: stale), in: 0..<1)
        let received = try #require(try receive(1, from: b).first)
        #expect(received.endpoint.address.low == 50)
        _ = try b.send(batch(of: [[2]], to: received.endpoint), in: 0..<1)
        #expect(try receive(1, from: a).map(\.bytes) == [[2]])
        _ = try b.send(batch(of: [[3]], to: Endpoint(address: .v4(1), port: 7)), in: 0..<1)
        #expect(internet.statistics.unreachable == 1)
        phone.move(to: [])
        #expect(try a.send(batch(of: [[1]], to: toB), in: 0..<1).lastError == ENETUNREACH)
    }

    @Test("A reply leaves from the address that the datagram was sent to")
    func stickySource() throws {
        let server = try #require(try internet.attach([.v4(1), .v4(2)]).bind(port: 7, mark: 0).v4)
        let client = try #require(try internet.attach([.v4(3)]).bind(port: 7, mark: 0).v4)
        _ = try client.send(batch(of: [[1]], to: Endpoint(address: .v4(2), port: 7)), in: 0..<1)
        let asked = try #require(try receive(1, from: server).first)
        _ = try server.send(batch(of: [[2]], to: asked.endpoint), in: 0..<1)
        #expect(try receive(1, from: client).first?.endpoint.address.low == 2)
    }

    @Test("Ports are taken, freed and counted up as the system's are")
    func ports() throws {
        let host = internet.attach([.v4(1), .v6(0, 1)])
        let first = try host.bind(port: 0, mark: 0)
        let second = try host.bind(port: 0, mark: 0)
        #expect(first.v4?.port == first.v6?.port && first.port != second.port)
        #expect(throws: TunnelIOError(.bind(port: first.port, operation: "bind"), errno: EADDRINUSE)) {
            try host.bind(port: first.port, mark: 0)
        }
        first.close()
        #expect(throws: TunnelIOError(.closed)) {
            try first.v4?.receive(into: PacketBatch(packetCapacity: 1, byteCapacity: 1))
        }
        #expect(try host.bind(port: first.port, mark: 0).all.count == 2)
    }

    @Test("Payloads beyond UDP's limit and those that fit no batch are dropped")
    func tooLarge() throws {
        let socket = try #require(try internet.attach([.v4(1)]).bind(port: 7, mark: 0).v4)
        let outgoing = try batch(
            of: [[UInt8](repeating: 1, count: 65_508), pattern(65_507, seed: 1), [1]],
            to: Endpoint(address: .v4(1), port: 7))
        let result = try socket.send(outgoing, in: 0..<3)
        #expect(result == DatagramSendResult(sent: 2, dropped: 1, bytes: 65_508, lastError: EMSGSIZE))
        let small = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
        #expect(try socket.receive(into: small) == 1)
        #expect(small.copy(of: 0) == [1])
    }

    @Test("A binding gives its port and its mark to the sockets of both families")
    func binding() throws {
        let host = internet.attach([.v4(1), .v6(0, 1)])
        let sockets = try host.bind(DatagramBinding(port: 7, mark: 3))
        #expect(sockets.all.count == 2)
        for case let socket as MemoryUDPSocket in sockets.all { #expect(socket.port == 7 && socket.mark == 3) }
        #expect(throws: TunnelIOError(.bind(port: 7, operation: "bind"), errno: EADDRINUSE)) {
            try host.bind(DatagramBinding(port: 7))
        }
        let pairs = try host.bind(DatagramBinding(mark: 5), count: 2)
        #expect(pairs.count == 2 && pairs.allSatisfy { $0.port == pairs[0].port && $0.port != 0 })
        #expect(pairs.flatMap(\.all).allSatisfy { ($0 as? MemoryUDPSocket)?.mark == 5 })
    }
}
