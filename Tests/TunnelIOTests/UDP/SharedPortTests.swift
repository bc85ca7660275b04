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

@Suite("A port that several sockets share", .timeLimit(.minutes(1)))
struct SharedPortTests {
    @Test("In memory: the datagrams of a source come to one socket, those of many to all")
    func memory() throws {
        let internet = MemoryInternet()
        let host = internet.attach([.v4(1), .v6(1, 1)])
        let sockets = try host.bind(DatagramBinding(), count: 3)
        let port = try #require(sockets.first?.port)
        #expect(sockets.count == 3)
        #expect(sockets.allSatisfy { $0.port == port && $0.v4?.port == port && $0.v6?.port == port })
        #expect(throws: TunnelIOError(.bind(port: port, operation: "bind"), errno: EADDRINUSE)) {
            try host.bind(DatagramBinding(port: port), count: 2)
        }
        for source in 0..<32 {
            let sender = try internet.attach([.v4(100 + UInt32(source))]).bind(port: 9, mark: 0)
            let outgoing = try batch(
                of: (0..<4).map { [UInt8(source), $0] }, to: Endpoint(address: .v4(1), port: port))
            #expect(try #require(sender.v4).send(outgoing, in: 0..<4).sent == 4)
        }
        try expectSpread(sockets.compactMap(\.v4), sources: 32, each: 4)
        for sockets in sockets { sockets.close() }
        try host.bind(port: port, mark: 0).close()
    }

    #if os(Linux)
        @Test("On Linux: the datagrams of a source come to one socket, those of many to all", arguments: [false, true])
        func linux(isIPv6: Bool) throws {
            try cancelWithoutIPv6(isIPv6)
            let sockets = try LinuxDatagramNetwork().bind(DatagramBinding(), count: 4)
            let port = try #require(sockets.first?.port)
            #expect(port != 0)
            #expect(sockets.count == 4)
            #expect(sockets.allSatisfy { $0.port == port && $0.all.allSatisfy { $0.port == port } })
            var senders: [LinuxUDPSocket] = []
            for source in 0..<32 {
                let sender = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
                senders.append(sender)
                let outgoing = try batch(
                    of: (0..<4).map { [UInt8(source), $0] }, to: .loopback(isIPv6: isIPv6, port: port))
                #expect(try sender.send(outgoing, in: 0..<4).sent == 4)
            }
            try expectSpread(sockets.compactMap { isIPv6 ? $0.v6 : $0.v4 }, sources: 32, each: 4)
            for sockets in sockets { sockets.close() }
        }

        @Test("On Linux: a port that is taken, or shared already, is refused")
        func linuxTaken() throws {
            let network = LinuxDatagramNetwork()
            let alone = try network.bind(port: 0, mark: 0)
            let shared = try network.bind(DatagramBinding(), count: 2)
            for port in [alone.port, try #require(shared.first?.port)] {
                for count in [1, 2] {
                    let error = #expect(throws: TunnelIOError.self) {
                        try network.bind(DatagramBinding(port: port), count: count)
                    }
                    #expect(error?.errno == EADDRINUSE)
                }
            }
            alone.close()
            for sockets in shared { sockets.close() }
        }

        @Test("On Linux, datagrams that a socket's full queue dropped are reported")
        func droppedOnReceipt() throws {
            let socket = try LinuxUDPSocket(isIPv6: false, port: 0)
            _ = SocketSetup.setOption(socket.readiness, SOL_SOCKET, SO_RCVBUF, 4096)
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let outgoing = try batch(
                of: (0..<64).map { pattern(1200, seed: $0) }, to: .loopback(isIPv6: false, port: socket.port))
            #expect(try sender.send(outgoing, in: 0..<64).sent == 64)
            let before = try receive(64, from: socket).count
            #expect(before < 64)
            // The system tells of it with the next datagram.
            let last = try batch(of: [[1]], to: .loopback(isIPv6: false, port: socket.port))
            #expect(try sender.send(last, in: 0..<1).sent == 1)
            #expect(try receive(1, from: socket).map(\.bytes) == [[1]])
            #expect(socket.receiveDrops == DatagramReceiveDrops(overflowed: 64 - before))
        }
    #endif

    /// Expects that all datagrams arrived, those of a source in order at one of the sockets, and that each socket received
    /// some.
    private func expectSpread(_ sockets: [any DatagramSocket], sources: Int, each: Int) throws {
        var owners: [UInt8: Int] = [:]
        var total = 0
        for (place, socket) in sockets.enumerated() {
            var next: [UInt8: UInt8] = [:]
            var received: [ReceivedDatagram] = []
            while isReadable(socket.readiness, milliseconds: 0) { received += try receive(1, from: socket) }
            #expect(!received.isEmpty)
            for datagram in received {
                let source = datagram.bytes[0]
                #expect(owners[source, default: place] == place)
                owners[source] = place
                #expect(datagram.bytes[1] == next[source, default: 0])
                next[source] = datagram.bytes[1] + 1
                total += 1
            }
        }
        #expect(total == sources * each)
    }
}
