// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Glibc
    import NetworkAddresses
    import Testing

    @testable import TunnelIO

    /// A system that takes, refuses and errs by script.
    struct ScriptedCalls: UDPSendCalls {
        enum Step {
            case take(Int)
            case fail(Int32)
        }

        var steps: [Step]
        var rooms: [Bool] = []
        /// The count of messages, and how many of them had a source, of each call.
        var calls: [[Int]] = []
        /// The first byte of each message that was taken.
        var taken: [UInt8] = []
        /// Its length, and that of its control messages.
        var lengths: [Int] = []
        var controls: [Int] = []

        mutating func send(_ messages: UnsafeMutablePointer<ctunnel_mmsghdr>, count: Int) -> Int {
            var withSource = 0
            for index in 0..<count where unsafe messages[index].msg_hdr.msg_controllen > 0 { withSource += 1 }
            calls.append([count, withSource])
            let step = steps.isEmpty ? .take(count) : steps.removeFirst()
            switch step {
            case .fail(let code): return -Int(code)
            case .take(let wanted):
                for index in 0..<min(wanted, count) {
                    taken.append(unsafe messages[index].msg_hdr.msg_iov.pointee.iov_base.load(as: UInt8.self))
                    lengths.append(Int(unsafe messages[index].msg_hdr.msg_iov.pointee.iov_len))
                    controls.append(Int(unsafe messages[index].msg_hdr.msg_controllen))
                }
                return wanted
            }
        }

        mutating func waitForRoom() -> Bool {
            rooms.isEmpty ? false : rooms.removeFirst()
        }

        /// Seconds.
        var time: Int64 = 1000
        var isTimeAsked = false

        mutating func now() -> Int64 {
            isTimeAsked = true
            return time * LaneClock.nanosecondsPerSecond
        }
    }

    @Suite("Sending a batch in chunks")
    struct UDPSenderTests {
        private func run(
            _ count: Int, _ steps: [ScriptedCalls.Step], rooms: [Bool] = [], source: UInt64 = 0,
            otherSourceFrom: Int? = nil
        ) throws -> (UDPSender, ScriptedCalls) {
            let batch = try PacketBatch(packetCapacity: count, byteCapacity: 65_536)
            for index in 0..<count {
                var endpoint = Endpoint.loopback(port: 9)
                endpoint.source.low = source
                if let otherSourceFrom, index >= otherSourceFrom { endpoint.source.low = source + 1 }
                batch.append(copying: [UInt8(truncatingIfNeeded: index), 0], endpoint: endpoint)
            }
            var calls = ScriptedCalls(steps: steps, rooms: rooms)
            var sender = UDPSender(joins: false)
            sender.send(batch, in: 0..<count, isIPv6: false, with: &calls)
            return (sender, calls)
        }

        @Test("Chunks have at most 64 datagrams")
        func chunks() throws {
            let (sender, calls) = try run(150, [])
            #expect(sender.result == DatagramSendResult(sent: 150, bytes: 300))
            #expect(calls.calls.map { $0[0] } == [64, 64, 22])
            #expect(calls.taken == (0..<150).map { UInt8($0) })
        }

        @Test("A partial send continues after the sent datagrams")
        func partial() throws {
            let (sender, calls) = try run(10, [.take(3), .take(1), .take(6)])
            #expect(sender.result == DatagramSendResult(sent: 10, bytes: 20))
            #expect(calls.calls.map { $0[0] } == [10, 7, 6])
            #expect(calls.taken == Array(0..<10))
        }

        @Test(
            "An error drops the one datagram that it is about",
            arguments: [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EPERM, ENOBUFS, EMSGSIZE, EINVAL, EACCES, EIO])
        func oneError(code: Int32) throws {
            let (sender, calls) = try run(6, [.take(2), .fail(code)])
            #expect(sender.result == DatagramSendResult(sent: 5, dropped: 1, bytes: 10, lastError: code))
            #expect(calls.taken == [0, 1, 3, 4, 5])
        }

        @Test("An error for each datagram ends all the same")
        func allErrors() throws {
            let (sender, calls) = try run(70, Array(repeating: .fail(EPERM), count: 70))
            #expect(sender.result == DatagramSendResult(dropped: 70, lastError: EPERM))
            #expect(calls.calls.count == 70)
        }

        @Test("An interrupted call is made again")
        func interrupted() throws {
            let (sender, _) = try run(3, [.fail(EINTR), .take(1), .fail(EINTR)])
            #expect(sender.result == DatagramSendResult(sent: 3, bytes: 6))
        }

        @Test("A full queue is waited for once")
        func fullThenRoom() throws {
            let (sender, calls) = try run(5, [.take(2), .fail(EAGAIN)], rooms: [true])
            #expect(sender.result == DatagramSendResult(sent: 5, bytes: 10))
            #expect(calls.calls.map { $0[0] } == [5, 3, 3])
        }

        @Test("A queue that stays full costs the rest of the chunk, not time")
        func staysFull() throws {
            let (sender, calls) = try run(5, [.take(2), .fail(EAGAIN)])
            #expect(sender.result == DatagramSendResult(sent: 2, dropped: 3, bytes: 4, lastError: EAGAIN))
            #expect(calls.calls.count == 2)
        }

        @Test(
            "A source that vanished is left out of all datagrams that have it, once",
            arguments: [
                EINVAL, ENETUNREACH, ENODEV, EADDRNOTAVAIL,
            ])
        func staleSource(code: Int32) throws {
            let (sender, calls) = try run(6, [.take(1), .fail(code)], source: 5, otherSourceFrom: 4)
            #expect(sender.result == DatagramSendResult(sent: 6, bytes: 12))
            #expect(sender.staleSources == 3)
            #expect(calls.calls == [[6, 6], [5, 5], [5, 2]])
            #expect(calls.taken == Array(0..<6))
        }

        @Test("An error that stays without the source drops the datagram")
        func staleSourceAndUnreachable() throws {
            let (sender, calls) = try run(2, [.fail(ENETUNREACH), .fail(ENETUNREACH)], source: 5)
            #expect(sender.result == DatagramSendResult(sent: 1, dropped: 1, bytes: 2, lastError: ENETUNREACH))
            #expect(calls.taken == [1])
        }

        @Test("A system that claims to have taken nothing does not hang the sender")
        func nothingTaken() throws {
            let (sender, _) = try run(2, [.take(0), .take(0)])
            #expect(sender.result == DatagramSendResult(dropped: 2))
        }

        @Test("A range outside the batch is cut to it")
        func range() throws {
            let batch = try batch(of: [[1], [2]], to: .loopback(port: 9))
            var calls = ScriptedCalls(steps: [])
            var sender = UDPSender(joins: false)
            sender.send(batch, in: 1..<9, isIPv6: false, with: &calls)
            #expect(sender.result == DatagramSendResult(sent: 1, bytes: 1))
            #expect(calls.taken == [2])
        }
    }

    @Suite("Sending joined datagrams")
    struct UDPJoinedSendTests {
        private func send(
            _ sizes: [Int], _ steps: [ScriptedCalls.Step] = [], isIPv6: Bool = false, source: UInt64 = 0,
            otherPortFrom: Int = .max
        ) throws -> (UDPSender, ScriptedCalls) {
            let batch = try PacketBatch(packetCapacity: sizes.count, byteCapacity: sizes.reduce(1, +))
            for (index, size) in sizes.enumerated() {
                var endpoint = Endpoint.loopback(isIPv6: isIPv6, port: index < otherPortFrom ? 9 : 10)
                endpoint.source.low = source
                batch.append(
                    copying: [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: size), endpoint: endpoint)
            }
            var calls = ScriptedCalls(steps: steps)
            var sender = UDPSender(joins: true)
            sender.send(batch, in: 0..<sizes.count, isIPv6: isIPv6, with: &calls)
            return (sender, calls)
        }

        @Test("Equal ones are one message, which a shorter one ends and a longer one does not join")
        func runs() throws {
            let (sender, calls) = try send([100, 100, 40, 40, 100, 100])
            #expect(sender.result == DatagramSendResult(sent: 6, bytes: 480))
            #expect(calls.taken == [0, 3, 4])
            #expect(calls.lengths == [240, 40, 200])
            #expect(calls.controls == [24, 0, 24])
        }

        @Test("Another endpoint, 64 datagrams or the longest message end one")
        func limits() throws {
            #expect(try send([10, 10, 10, 10], otherPortFrom: 2).1.lengths == [20, 20])
            #expect(try send(Array(repeating: 10, count: 130)).1.lengths == [640, 640, 20])
            let (v4, v6) = (try send([32_754, 32_753, 1]), try send([32_764, 32_763, 1], isIPv6: true))
            #expect(v4.1.lengths == [65_507, 1])
            #expect(v6.1.lengths == [65_527, 1])
            #expect(try send([32_754, 32_754]).1.lengths == [32_754, 32_754])
        }

        @Test("Refused, they are sent one by one, the same bytes", arguments: [EIO, EINVAL, EMSGSIZE])
        func refused(code: Int32) throws {
            let (sender, calls) = try send([10, 10, 5, 20, 20], [.fail(code)])
            #expect(sender.result == DatagramSendResult(sent: 5, bytes: 65))
            // The second message goes where the first one was refused.
            #expect(sender.takenApart == 2)
            #expect(calls.taken == [0, 1, 2, 3, 4])
            #expect(calls.lengths == [10, 10, 5, 20, 20])
            #expect(calls.controls == [0, 0, 0, 0, 0])
        }

        @Test(
            "Datagrams are sent one by one if they are refused after others were sent, and are accepted in parts",
            arguments: [EIO, EINVAL, EMSGSIZE])
        func refusedInBetween(code: Int32) throws {
            let (sender, calls) = try send(
                [30, 30, 40, 40, 40, 50], [.take(1), .fail(code), .take(2), .fail(EINTR), .take(1)])
            #expect(sender.result == DatagramSendResult(sent: 6, bytes: 230))
            #expect(calls.taken == [0, 2, 3, 4, 5])
            #expect(calls.lengths == [60, 40, 40, 40, 50])
        }

        @Test("Only the datagram that cannot be sent at all is dropped")
        func refusedAndDropped() throws {
            let (sender, calls) = try send([10, 10, 10], [.fail(EMSGSIZE), .take(1), .fail(EPERM)])
            #expect(sender.result == DatagramSendResult(sent: 2, dropped: 1, bytes: 20, lastError: EPERM))
            #expect(calls.taken == [0, 2])
        }

        @Test("A source that vanished is left out, and is not taken for a system that cannot cut")
        func staleSource() throws {
            let (sender, calls) = try send([10, 10], [.fail(EINVAL), .fail(EINVAL)], source: 5)
            #expect(sender.result == DatagramSendResult(sent: 2, bytes: 20))
            #expect(sender.refusals.isEmpty && sender.staleSources == 2)
            #expect(calls.controls == [0, 0])
            let (other, kept) = try send([10, 10], [.fail(ENETUNREACH)], source: 5)
            #expect(other.result.sent == 2)
            #expect(kept.controls == [24])
        }

        @Test("A lost message counts all of its datagrams")
        func dropped() throws {
            let (sender, _) = try send([10, 10, 10], [.fail(EPERM)])
            #expect(sender.result == DatagramSendResult(dropped: 3, lastError: EPERM))
        }
    }

    @Suite("Control messages of UDP sockets")
    struct UDPControlMessagesTests {
        private func read(_ bytes: [UInt8], length: Int? = nil) -> (Endpoint, UInt32) {
            var endpoint = Endpoint.loopback(port: 1)
            var overflow: UInt32 = 0
            unsafe bytes.withUnsafeBytes { buffer in
                guard let base = buffer.baseAddress else { return }
                unsafe UDPControlMessages.read(
                    base, length: length ?? bytes.count, into: &endpoint, overflow: &overflow)
            }
            return (endpoint, overflow)
        }

        @Test("A written message is read back unchanged", arguments: [false, true])
        func roundTrip(isIPv6: Bool) {
            var endpoint = Endpoint.loopback(isIPv6: isIPv6, port: 1)
            endpoint.source.high = isIPv6 ? 0x2001_0db8_0000_0001 : 0
            endpoint.source.low = isIPv6 ? 0x1122_3344_5566_7788 : 0xc000_0201
            endpoint.source.interfaceIndex = 7
            var control = [UInt8](repeating: 0, count: 128)
            let length = unsafe control.withUnsafeMutableBytes { buffer in
                guard let base = buffer.baseAddress else { return 0 }
                return unsafe UDPControlMessages.write(endpoint, to: base)
            }
            #expect(length == (isIPv6 ? 40 : 32))
            let (back, _) = read(control, length: length)
            #expect(back.source.high == endpoint.source.high)
            #expect(back.source.low == endpoint.source.low)
            #expect(back.source.interfaceIndex == 7)
        }

        @Test("Without a source there is no control message")
        func none() {
            var control = [UInt8](repeating: 0, count: 128)
            let length = unsafe control.withUnsafeMutableBytes { buffer in
                guard let base = buffer.baseAddress else { return -1 }
                return unsafe UDPControlMessages.write(.loopback(port: 1), to: base)
            }
            #expect(length == 0)
        }

        @Test("Lengths that lie are not followed", arguments: [0, 1, 15, 17, 41, 1 << 40, Int.max, -1])
        func lyingLength(length: Int) {
            var control = [UInt8](repeating: 0, count: 40)
            unsafe withUnsafeBytes(of: length.littleEndian) { unsafe control.replaceSubrange(0..<8, with: $0) }
            unsafe withUnsafeBytes(of: Int32(8).littleEndian) { unsafe control.replaceSubrange(12..<16, with: $0) }
            let (endpoint, overflow) = read(control)
            #expect(endpoint.hasSameEnds(as: .loopback(port: 1)))
            #expect(overflow == 0)
        }
    }
#endif
