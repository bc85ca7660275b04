// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Glibc
    import NetworkAddresses
    import Testing

    @testable import TunnelIO

    @Suite("Linux UDP sockets")
    struct LinuxUDPSocketTests {
        @Test("A batch arrives whole and in order, with endpoints", arguments: [1, 64, 200], [false, true])
        func batches(count: Int, isIPv6: Bool) throws {
            try cancelWithoutIPv6(isIPv6)
            let sender = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            let sent = (0..<count).map { pattern(1 + ($0 * 37) % 1400, seed: $0) }
            let outgoing = try batch(of: sent, to: .loopback(isIPv6: isIPv6, port: receiver.port))

            let result = try sender.send(outgoing, in: 0..<count)
            #expect(result == DatagramSendResult(sent: count, bytes: sent.reduce(0) { $0 + $1.count }))

            let received = try receive(count, from: receiver)
            #expect(received.map(\.bytes) == sent)
            let local = Endpoint.loopback(isIPv6: isIPv6, port: 0)
            for datagram in received {
                #expect(datagram.endpoint.port == sender.port)
                #expect(datagram.endpoint.isIPv6 == isIPv6)
                #expect(datagram.endpoint.address == local.address)
                #expect(datagram.endpoint.source.high == local.address.high)
                #expect(datagram.endpoint.source.low == local.address.low)
                #expect(datagram.endpoint.source.interfaceIndex != 0)
            }
            #expect(!isReadable(receiver.readiness, milliseconds: 0))
        }

        @Test("Every size up to the largest payload arrives", arguments: [false, true])
        func sizes(isIPv6: Bool) throws {
            try cancelWithoutIPv6(isIPv6)
            let sender = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            let sizes = [
                1, 2, 31, 32, 33, 148, 1280, 1420, 1472, 1473, 2048, 4096, 9000, 16_384, 32_768, 65_506, 65_507,
            ]
            for size in sizes {
                let bytes = pattern(size, seed: size)
                let outgoing = try batch(of: [bytes], to: .loopback(isIPv6: isIPv6, port: receiver.port))
                #expect(try sender.send(outgoing, in: 0..<1).sent == 1)
                let received = try receive(1, from: receiver, slots: 2)
                #expect(received.map(\.bytes) == [bytes])
            }
            #expect(receiver.statistics.truncated == 0)
        }

        @Test("A datagram larger than UDP allows is dropped, and those behind it are sent")
        func tooLarge() throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0)
            let outgoing = try batch(
                of: [[1], [UInt8](repeating: 2, count: 65_508), [3]], to: .loopback(port: receiver.port))
            let result = try sender.send(outgoing, in: 0..<3)
            #expect(result == DatagramSendResult(sent: 2, dropped: 1, bytes: 2, lastError: EMSGSIZE))
            #expect(try receive(2, from: receiver).map(\.bytes) == [[1], [3]])
        }

        @Test("Empty datagrams and those of the other family are passed over in silence")
        func passedOver() throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0)
            let outgoing = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
            outgoing.append(copying: [], endpoint: .loopback(port: receiver.port))
            outgoing.append(copying: [1], endpoint: .loopback(isIPv6: true, port: receiver.port))
            outgoing.append(copying: [2], endpoint: .loopback(port: receiver.port))
            outgoing.append(copying: [3], endpoint: .loopback(port: receiver.port))
            #expect(try sender.send(outgoing, in: 0..<3) == DatagramSendResult(sent: 1, bytes: 1))
            #expect(try receive(1, from: receiver).map(\.bytes) == [[2]])
        }

        @Test("An empty datagram from elsewhere is received with length zero")
        func emptyDatagram() throws {
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0)
            let other = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
            defer { _ = close(other) }
            var name = sockaddr_in()
            name.sin_family = sa_family_t(AF_INET)
            name.sin_port = receiver.port.bigEndian
            name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let sent = unsafe withUnsafePointer(to: &name) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    unsafe sendto(other, nil, 0, 0, address, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            #expect(sent == 0)
            let received = try receive(1, from: receiver)
            #expect(received.map(\.bytes) == [[]])
        }

        @Test("Datagrams lie apart in the batch, and a batch fills in more than one call")
        func layout() throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let outgoing = try batch(of: (0..<100).map { pattern(500, seed: $0) }, to: .loopback(port: receiver.port))
            #expect(try sender.send(outgoing, in: 0..<100).sent == 100)

            let incoming = try PacketBatch(packetCapacity: 100, byteCapacity: 101 * LinuxUDPSocket.slotStride)
            #expect(try receiver.receive(into: incoming) == 100)
            for index in 1..<100 {
                let previous = incoming[index - 1]
                #expect(Int(incoming[index].offset) - Int(previous.offset) - Int(previous.length) >= 32)
            }
            #expect(incoming.copy(of: 99) == pattern(500, seed: 99))
            // Full: there is room for no other.
            #expect(try receiver.receive(into: incoming) == 0)
        }

        @Test("A datagram that does not fit a small batch is dropped and counted")
        func truncated() throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let outgoing = try batch(of: [pattern(5000, seed: 1), [7]], to: .loopback(port: receiver.port))
            #expect(try sender.send(outgoing, in: 0..<2).sent == 2)
            let small = try PacketBatch(packetCapacity: 8, byteCapacity: 4096)
            #expect(try receiver.receive(into: small) == 1)
            #expect(small.copy(of: 0) == [7])
            #expect(receiver.statistics.truncated == 1)
        }

        @Test("Joined datagrams arrive whole, with and without either switch", arguments: [false, true], 0..<4)
        func joined(isIPv6: Bool, switches: Int) throws {
            try cancelWithoutIPv6(isIPv6)
            var offload = OffloadOptions()
            offload.udpSegmentation = switches & 1 != 0
            offload.udpCoalescing = switches & 2 != 0
            let sender = try LinuxUDPSocket(isIPv6: isIPv6, port: 0, offload: offload)
            let receiver = try LinuxUDPSocket(isIPv6: isIPv6, port: 0, offload: offload)
            var sent = (0..<150).map { pattern(1300, seed: $0) }
            sent[70] = pattern(900, seed: 70)
            sent[80] = pattern(1400, seed: 80)
            let outgoing = try batch(of: sent, to: .loopback(isIPv6: isIPv6, port: receiver.port))
            let bytes = sent.reduce(0) { $0 + $1.count }
            #expect(try sender.send(outgoing, in: 0..<150) == DatagramSendResult(sent: 150, bytes: bytes))
            let received = try receive(150, from: receiver, slots: 512)
            #expect(received.map(\.bytes) == sent)
            #expect(received.allSatisfy { $0.endpoint.port == sender.port && $0.endpoint.source.interfaceIndex != 0 })
            #expect(sender.statistics.takenApart == 0)
            #expect(receiver.statistics.truncated == 0)
        }

        @Test("Single datagrams fill a batch; joined ones are returned two messages at a time")
        func oneReceive() throws {
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0)
            let received = try PacketBatch(packetCapacity: 512, byteCapacity: 64 * LinuxUDPSocket.slotStride)
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0)
            // None may join the one before it: each is longer.
            let single = (0..<40).map { pattern(100 + $0, seed: $0) }
            let to = Endpoint.loopback(port: receiver.port)
            #expect(try sender.send(batch(of: single, to: to), in: 0..<40).sent == 40)
            // As many are what lanes take for a socket that has more.
            let alone = try receiveAll(40, from: receiver, into: received)
            #expect(alone.contains { $0 >= 16 }, "\(alone)")
            let joined = (0..<400).map { pattern(1300, seed: $0) }
            #expect(try sender.send(batch(of: joined, to: to), in: 0..<400).sent == 400)
            let together = try receiveAll(400, from: receiver, into: received)
            #expect(together.allSatisfy { $0 <= 128 } && together.contains { $0 >= 64 }, "\(together)")
        }

        @Test("A batch that is read with one call gets one message", arguments: [false, true])
        func oneCall(isCutting: Bool) throws {
            let offload = isCutting ? OffloadOptions() : .none
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0, offload: offload)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0, offload: offload)
            let sent = (0..<3).map { pattern(100 + $0, seed: $0) }
            #expect(try sender.send(batch(of: sent, to: .loopback(port: receiver.port)), in: 0..<3).sent == 3)
            let received = try PacketBatch(packetCapacity: 512, byteCapacity: 64 * LinuxUDPSocket.slotStride)
            received.readsOnce = true
            #expect(try receiver.receive(into: received) == 1)
            received.readsOnce = false
            while received.count < 3 {
                try #require(isReadable(receiver.readiness, milliseconds: 5000))
                _ = try receiver.receive(into: received)
            }
            #expect((0..<3).map { received.copy(of: $0) } == sent)
        }

        /// The sizes of the batches in which this many datagrams arrive.
        private func receiveAll(
            _ count: Int, from receiver: LinuxUDPSocket, into batch: PacketBatch
        ) throws -> [Int] {
            var sizes: [Int] = []
            while sizes.reduce(0, +) < count {
                try #require(isReadable(receiver.readiness, milliseconds: 5000), "\(sizes)")
                batch.removeAll()
                sizes.append(try receiver.receive(into: batch))
            }
            #expect(sizes.reduce(0, +) == count)
            return sizes
        }

        @Test("A batch too small for joined datagrams gets them one by one", arguments: [(8, 1 << 20), (128, 16_384)])
        func smallBatch(packets: Int, bytes: Int) throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0)
            let small = try PacketBatch(packetCapacity: packets, byteCapacity: bytes)
            // From here on the system knows.
            #expect(try receiver.receive(into: small) == 0)
            let sent = (0..<40).map { pattern(1000, seed: $0) }
            #expect(try sender.send(batch(of: sent, to: .loopback(port: receiver.port)), in: 0..<40).sent == 40)
            var received: [[UInt8]] = []
            while received.count < 40, isReadable(receiver.readiness, milliseconds: 2000) {
                small.removeAll()
                #expect(try receiver.receive(into: small) > 0)
                received += (0..<small.count).map { small.copy(of: $0) }
            }
            #expect(received == sent)
            #expect(receiver.statistics.truncated == 0)
        }

        @Test("A reply leaves from the address that the datagram was sent to")
        func stickySource() throws {
            let server = try LinuxUDPSocket(isIPv6: false, port: 0)
            let client = try LinuxUDPSocket(isIPv6: false, port: 0)
            let address = Endpoint(address: .v4(0x7f00_0002), port: server.port)
            #expect(try client.send(batch(of: [[1]], to: address), in: 0..<1).sent == 1)

            let asked = try #require(try receive(1, from: server).first)
            #expect(asked.endpoint.source.low == 0x7f00_0002)
            #expect(try server.send(batch(of: [[2]], to: asked.endpoint), in: 0..<1).sent == 1)

            let answer = try #require(try receive(1, from: client).first)
            #expect(answer.endpoint.address.low == 0x7f00_0002)
            #expect(answer.endpoint.port == server.port)
        }

        @Test("A source that the host does not have is left out, and the datagrams are sent", arguments: [false, true])
        func staleSource(isIPv6: Bool) throws {
            try cancelWithoutIPv6(isIPv6)
            let sender = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            let receiver = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            var endpoint = Endpoint.loopback(isIPv6: isIPv6, port: receiver.port)
            // TEST-NET-3 and the documentation prefix.
            endpoint.source.high = isIPv6 ? 0x2001_0db8_0000_0000 : 0
            endpoint.source.low = isIPv6 ? 9 : 0xcb00_7109
            let result = try sender.send(batch(of: [[1], [2]], to: endpoint), in: 0..<2)
            #expect(result == DatagramSendResult(sent: 2, bytes: 2))
            #expect(try receive(2, from: receiver).map(\.bytes) == [[1], [2]])
            #expect(sender.statistics.staleSources == 2)
        }

        @Test("A port without a listener harms neither socket nor batch")
        func refused() throws {
            let closed = try LinuxUDPSocket(isIPv6: false, port: 0)
            let port = closed.port
            closed.close()
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0)
            for _ in 0..<3 {
                #expect(try sender.send(batch(of: [[1], [2]], to: .loopback(port: port)), in: 0..<2).dropped == 0)
                #expect(try receive(0, from: sender).isEmpty)
                let incoming = try PacketBatch(packetCapacity: 1, byteCapacity: 65_600)
                #expect(try sender.receive(into: incoming) == 0)
            }
        }

        @Test("Every call of a closed socket fails, and closing it again is safe")
        func closed() throws {
            let socket = try LinuxUDPSocket(isIPv6: false, port: 0)
            let outgoing = try batch(of: [[1]], to: .loopback(port: socket.port))
            socket.close()
            socket.close()
            #expect(throws: TunnelIOError(.closed)) { try socket.receive(into: outgoing) }
            #expect(throws: TunnelIOError(.closed)) { try socket.send(outgoing, in: 0..<1) }
            #expect(throws: TunnelIOError(.closed)) { try socket.setMark(1) }
        }

        @Test("Both families get the same free port")
        func samePort() throws {
            let sockets = try SystemDatagramNetwork().bind(port: 0, mark: 0)
            defer { sockets.close() }
            #expect(sockets.port != 0)
            #expect(sockets.v4?.port == sockets.port)
            #expect(sockets.v6?.port == sockets.port)
            #expect(sockets.v4?.isIPv6 == false && sockets.v6?.isIPv6 == true)
        }

        @Test("A port that is taken in one family cannot be bound", arguments: [false, true])
        func taken(isIPv6: Bool) throws {
            let holder = try LinuxUDPSocket(isIPv6: isIPv6, port: 0)
            #expect(throws: TunnelIOError(.bind(port: holder.port, operation: "bind"), errno: EADDRINUSE)) {
                try SystemDatagramNetwork().bind(port: holder.port, mark: 0)
            }
            // The other family's socket was closed.
            let other = try LinuxUDPSocket(isIPv6: !isIPv6, port: holder.port)
            #expect(other.port == holder.port)
        }

        @Test("Datagrams that overflow the system's queue are counted")
        func overflow() throws {
            let sender = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            let receiver = try LinuxUDPSocket(isIPv6: false, port: 0, offload: .none)
            var size: Int32 = 4096
            _ = unsafe setsockopt(receiver.readiness, SOL_SOCKET, SO_RCVBUF, &size, 4)
            let outgoing = try batch(of: (0..<64).map { pattern(1000, seed: $0) }, to: .loopback(port: receiver.port))
            _ = try sender.send(outgoing, in: 0..<64)
            let incoming = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * LinuxUDPSocket.slotStride)
            let first = try receiver.receive(into: incoming)
            #expect(first > 0 && first < 64)
            // The count comes with the first datagram after the loss.
            _ = try sender.send(outgoing, in: 0..<1)
            #expect(try receive(1, from: receiver).count == 1)
            #expect(receiver.statistics.overflowed == 64 - first)
        }
    }
#endif
