// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("DatagramPort", .timeLimit(.minutes(1)))
struct DatagramPortTests {
    private static func text(_ number: Int) -> [UInt8] { Array("datagram \(number)".utf8) }

    @Test("Datagrams go and come in both families, and answers go to where they are from")
    func bothFamilies() async throws {
        let internet = MemoryInternet()
        let client = try DatagramPort(on: internet.attach("192.0.2.1", "2001:db8::1"))
        let server = try DatagramPort(7, on: internet.attach("203.0.113.7", "2001:db8:7::7"))
        #expect(server.port == 7 && client.port != 0)
        for address in ["203.0.113.7:7", "[2001:db8:7::7]:7"] {
            let endpoint = try Endpoint(address)
            #expect(try client.send([1, 2, 3], to: endpoint))
            let question = try await server.nextDatagram()
            #expect(question.bytes == [1, 2, 3] && question.endpoint.port == client.port)
            #expect(try server.send([4], to: question.endpoint))
            #expect(try await client.nextDatagram() == Datagram([4], endpoint))
            #expect(try client.receiveNow() == nil)
        }
        #expect(internet.statistics.delivered == 4)
    }

    @Test("Datagrams of the system's loopback arrive one by one, joined or not", arguments: [false, true])
    func system(isIPv6: Bool) async throws {
        let (one, two) = (try DatagramPort(), try DatagramPort())
        let endpoint = Endpoint.loopback(isIPv6: isIPv6, port: two.port)
        guard try one.send(Self.text(0), to: endpoint) else {
            // A machine without IPv6 has nothing to send it with.
            #expect(isIPv6)
            return
        }
        for number in 1..<50 { try one.send(Self.text(number), to: endpoint) }
        for number in 0..<50 { #expect(try await two.nextDatagram().bytes == Self.text(number)) }
    }

    @Test("Several tasks can wait, and each datagram goes to one of them")
    func severalReaders() async throws {
        let internet = MemoryInternet()
        let port = try DatagramPort(7, on: internet.attach("192.0.2.7"))
        let sender = try DatagramPort(on: internet.attach("192.0.2.1"))
        let seen = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 {
                group.addTask { Int(try await port.nextDatagram().bytes[0]) }
            }
            let endpoint = try Endpoint("192.0.2.7:7")
            for number in 0..<20 { try sender.send([UInt8(number)], to: endpoint) }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(seen == Set(0..<20))
    }

    @Test("Closing ends the sequence and every wait immediately, and later calls are refused")
    func closing() async throws {
        let internet = MemoryInternet()
        let port = try DatagramPort(7, on: internet.attach("192.0.2.7"))
        let sender = try DatagramPort(on: internet.attach("192.0.2.1"))
        let reading = Task {
            var count = 0
            for try await datagram in port.datagrams {
                count += 1
                if datagram.bytes == [0] { port.close() }
            }
            return count
        }
        for byte in [UInt8(2), 1, 0] { try sender.send([byte], to: try Endpoint("192.0.2.7:7")) }
        #expect(try await reading.value == 3)
        #expect(throws: TunnelIOError(.closed)) { try port.receiveNow() }
        #expect(throws: TunnelIOError(.closed)) { try port.send([1], to: .loopback(port: 1)) }
        await #expect(throws: TunnelIOError(.closed)) { try await port.nextDatagram() }
        port.close()
    }

    @Test("A cancelled task stops waiting, its sequence ends, and the port stays open")
    func cancellation() async throws {
        let internet = MemoryInternet()
        let network = try internet.attach("192.0.2.7")
        let port = try DatagramPort(7, on: network)
        let waiting = Task { try await port.nextDatagram() }
        waiting.cancel()
        await #expect(throws: TunnelIOError(.cancelled)) { try await waiting.value }
        let all = Task { for try await _ in port.datagrams {} }
        all.cancel()
        try await all.value
        try DatagramPort(on: network).send([9], to: try Endpoint("192.0.2.7:7"))
        #expect(try await port.nextDatagram().bytes == [9])
    }

    @Test("A datagram of a missing family, or one that is too long, is reported as not sent; an empty one is sent")
    func limits() async throws {
        let internet = MemoryInternet()
        let port = try DatagramPort(7, on: internet.attach("192.0.2.7"))
        #expect(try port.send([1], to: try Endpoint("[2001:db8::1]:7")) == false)
        #expect(try port.send([UInt8](repeating: 0, count: 65_508), to: try Endpoint("192.0.2.7:7")) == false)
        #expect(try port.send([UInt8](repeating: 0, count: 1 << 20), to: try Endpoint("192.0.2.7:7")) == false)
        #expect(try port.send([UInt8](repeating: 3, count: 65_507), to: try Endpoint("192.0.2.7:7")))
        #expect(try await port.nextDatagram().bytes.count == 65_507)
    }

    @Test("A port that is taken is an error of binding")
    func taken() throws {
        let network = try MemoryInternet().attach("192.0.2.7")
        let first = try DatagramPort(7, on: network)
        #expect(throws: TunnelIOError.self) { try DatagramPort(7, on: network) }
        first.close()
        _ = try DatagramPort(7, on: network)
    }
}
