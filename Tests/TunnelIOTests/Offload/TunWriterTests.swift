// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Glibc
    import Testing

    @testable import TunnelIO

    /// A device that takes frames, or refuses them by script.
    private struct ScriptedWrites: TunWriteCalls {
        /// The error number of each call, zero for none; later calls succeed.
        var errors: [Int32] = []
        /// An error for every superframe of a kind.
        var refuses: (VirtioHeader) -> Int32 = { _ in 0 }
        var framing = TunFraming(hasVirtioHeader: true)
        /// The accepted frames.
        var frames: [(header: VirtioHeader, bytes: [UInt8])] = []
        var callCount = 0
        var time: Int64 = 1_000

        mutating func now() -> Int64 { time }

        mutating func write(_ vectors: UnsafePointer<iovec>, count: Int) -> Int32 {
            callCount += 1
            var bytes: [UInt8] = []
            for index in 0..<count {
                let vector = unsafe vectors[index]
                unsafe bytes += UnsafeRawBufferPointer(start: vector.iov_base, count: vector.iov_len)
            }
            var header = VirtioHeader()
            if framing.hasPacketInformation {
                #expect(bytes.prefix(4) == (bytes[framing.length] >> 4 == 4 ? [0, 0, 8, 0] : [0, 0, 0x86, 0xdd]))
            }
            if framing.hasVirtioHeader {
                header = unsafe bytes[framing.virtioOffset...].withUnsafeBytes { unsafe VirtioHeader($0) } ?? header
            }
            bytes.removeFirst(framing.length)
            let error = errors.isEmpty ? refuses(header) : errors.removeFirst()
            if error == 0 { frames.append((header, bytes)) }
            return error
        }
    }

    @Suite("Writing batches to a device")
    struct TunWriterTests {
        private static let framing = TunFraming(hasVirtioHeader: true)

        private func packets(_ count: Int, isTCP: Bool = true, port: UInt16 = 1) -> [[UInt8]] {
            var flow = FlowBuilder(isTCP: isTCP, sourcePort: port)
            return (0..<count).map { flow.packet(pattern(60, seed: $0)) }
        }

        private func batch(_ packets: [[UInt8]]) throws -> PacketBatch {
            let batch = try PacketBatch(
                packetCapacity: packets.count, byteCapacity: packets.reduce(1) { $0 + $1.count })
            for packet in packets { batch.append(copying: packet) }
            return batch
        }

        @Test(
            "A flow is one write of the same packets, with either prefix", arguments: [false, true])
        func joined(hasPacketInformation: Bool) throws {
            let packets = packets(5)
            let framing = TunFraming(hasVirtioHeader: true, hasPacketInformation: hasPacketInformation)
            var calls = ScriptedWrites(framing: framing)
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: framing)
            let result = try writer.send(batch(packets + [[0x60, 1, 2]]), with: &calls)
            #expect(result == TunSendResult(sent: 6, dropped: 0))
            #expect(calls.frames.count == 2)
            #expect(split(calls.frames[0]) == packets)
            #expect(calls.frames[1].bytes == [0x60, 1, 2])
        }

        @Test("Flows that alternate, wrong checksums and many long packets are written complete and in order")
        func payloads() throws {
            var flows = [FlowBuilder(sourcePort: 1), FlowBuilder(isIPv6: true, isTCP: false, sourcePort: 2)]
            var packets: [[[UInt8]]] = [[], []]
            var mixed: [[UInt8]] = []
            for index in 0..<300 {
                // Runs of each flow, some of one packet. The payloads exceed the memory for copies.
                let flow = index % 7 == 0 || index > 150 ? 1 : 0
                var packet = flows[flow].packet(pattern(1300, seed: index))
                if index % 50 == 20 { packet[packet.count - 1] ^= 1 }
                packets[flow].append(packet)
                mixed.append(packet)
            }
            var calls = ScriptedWrites()
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch(mixed), with: &calls) == TunSendResult(sent: 300, dropped: 0))
            #expect(calls.frames.count < 40)
            var written: [[[UInt8]]] = [[], []]
            for frame in calls.frames {
                let parts = frame.header == VirtioHeader() ? [frame.bytes] : try #require(split(frame))
                written[frame.bytes[0] >> 4 == 6 ? 1 : 0] += parts
            }
            #expect(written == packets)
        }

        @Test(
            "Without virtio headers on the device, or with one packet only, nothing is joined",
            arguments: [TunFraming(), TunFraming(hasPacketInformation: true), framing])
        func plain(framing: TunFraming) throws {
            let packets = packets(framing.hasVirtioHeader ? 1 : 4)
            var calls = ScriptedWrites(framing: framing)
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: framing)
            let result = try writer.send(batch(packets), with: &calls)
            #expect(result == TunSendResult(sent: packets.count, dropped: 0))
            #expect(calls.frames.map(\.bytes) == packets)
            #expect(calls.frames.allSatisfy { $0.header == VirtioHeader() })
        }

        @Test("With packet information, an invalid IP packet is dropped here, since the kernel would accept it")
        func notIP() throws {
            let framing = TunFraming(hasPacketInformation: true)
            var calls = ScriptedWrites(framing: framing)
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: framing)
            let result = try writer.send(batch([[0, 1, 2], [0x45, 1]]), with: &calls)
            #expect(result == TunSendResult(sent: 1, dropped: 1))
            #expect(calls.frames.map(\.bytes) == [[0x45, 1]])
        }

        @Test("Packets that were consumed are passed over")
        func consumed() throws {
            let batch = try batch(packets(4))
            for index in [0, 2] { batch[index].length = 0 }
            var calls = ScriptedWrites()
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(writer.send(batch, with: &calls) == TunSendResult(sent: 2, dropped: 0))
            #expect(calls.frames.map(\.bytes) == [packets(4)[1], packets(4)[3]])
        }

        @Test(
            "A kernel that refuses a superframe gets the packets, and for a while no more superframes of that kind",
            arguments: [true, false])
        func refused(isTCP: Bool) throws {
            let wanted =
                packets(3, isTCP: isTCP) + packets(3, isTCP: isTCP, port: 2) + packets(3, isTCP: !isTCP, port: 3)
            var calls = ScriptedWrites()
            let kind = isTCP ? VirtioHeader.Segmentation.tcp4 : VirtioHeader.Segmentation.udp
            calls.refuses = { $0.segmentation == kind ? EINVAL : 0 }
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 9, dropped: 0))
            // One refused, six packets, one superframe of the other kind.
            #expect(calls.callCount == 8)
            #expect(calls.frames.map(\.bytes).prefix(6) == wanted.prefix(6))
            #expect(calls.frames.last.flatMap { split($0) } == Array(wanted.suffix(3)))
            calls.callCount = 0
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 9, dropped: 0))
            #expect(calls.callCount == 7, "it is not tried again")
            #expect(writer.joins)
            // For a while: then once more, and for twice as long where it is refused again.
            for pause in [10, 20, 40] as [Int64] {
                calls.time += pause * 1_000_000_000
                calls.callCount = 0
                #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 9, dropped: 0))
                #expect(calls.callCount == 8, "after \(pause) s it is")
                calls.time += pause * 1_000_000_000
                calls.callCount = 0
                #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 9, dropped: 0))
                #expect(calls.callCount == 7)
            }
            // A flow that was refused by mistake is joined again.
            calls.refuses = { _ in 0 }
            calls.time += 400 * 1_000_000_000
            for _ in 0..<2 {
                calls.callCount = 0
                #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 9, dropped: 0))
                #expect(calls.callCount == 3)
            }
        }

        @Test(
            "Without memory for a superframe the packets are written, and the next time it is tried again",
            arguments: [ENOMEM, ENOBUFS])
        func noMemory(code: Int32) throws {
            let wanted = packets(3)
            var calls = ScriptedWrites(errors: [code])
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 3, dropped: 0))
            #expect(calls.frames.map(\.bytes) == wanted)
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 3, dropped: 0))
            #expect(calls.callCount == 5)
        }

        @Test(
            "A packet that the system refuses is dropped and counted, and later ones are sent",
            arguments: [EIO, EAGAIN])
        func dropped(code: Int32) throws {
            let wanted = packets(3) + packets(1, port: 2)
            var calls = ScriptedWrites(errors: [code])
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 1, dropped: 3))
            calls.errors = [0, code]
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 3, dropped: 1))
            #expect(writer.joins)
        }

        @Test("A refused single packet does not disable superframes", arguments: [EINVAL, ENOBUFS])
        func singleRefused(code: Int32) throws {
            let wanted = [[0, 1, 2]] + packets(3)
            var calls = ScriptedWrites(errors: [code])
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch(wanted), with: &calls) == TunSendResult(sent: 3, dropped: 1))
            #expect(calls.frames.count == 1)
        }

        @Test("A removed device ends a write: at a packet, at a superframe and among its packets", arguments: 0..<3)
        func gone(where place: Int) throws {
            var calls = ScriptedWrites(errors: [[EBADFD], [0, EBADFD], [0, EINVAL, 0, EBADFD]][place])
            let writer = TunWriter(joinsTCP: true, joinsUDP: true, framing: Self.framing)
            #expect(try writer.send(batch([[1, 2]] + packets(3)), with: &calls) == nil)
            #expect(calls.callCount == [1, 2, 4][place])
        }
    }
#endif
