// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Glibc
    import NetworkAddresses
    import Testing

    @testable import TunnelIO

    @Suite("Remembering where joined datagrams were refused")
    struct UDPRefusalsTests {
        private static let second = LaneClock.nanosecondsPerSecond
        private let near = Endpoint(address: .v4(0x0a00_0001), port: 9)
        private let far = Endpoint(address: .v4(0x0a00_0002), port: 9)

        /// A socket's sends over time.
        private final class Sender {
            let refusals = UDPRefusals()
            /// Seconds.
            var time: Int64 = 1000

            /// Sends four datagrams to each endpoint, all in one batch.
            /// - Returns: the lengths of the messages that were taken.
            func send(
                _ endpoints: Endpoint..., size: Int = 1000, script steps: [ScriptedCalls.Step] = []
            ) throws -> (lengths: [Int], calls: ScriptedCalls) {
                let count = 4 * endpoints.count
                let batch = try PacketBatch(packetCapacity: count, byteCapacity: count * size)
                for index in 0..<count {
                    batch.append(copying: pattern(size, seed: index), endpoint: endpoints[index / 4])
                }
                var calls = ScriptedCalls(steps: steps)
                calls.time = time
                var sender = UDPSender(joins: true, refusals: refusals)
                sender.send(batch, in: 0..<count, isIPv6: endpoints[0].isIPv6, with: &calls)
                #expect(sender.result == DatagramSendResult(sent: count, bytes: count * size))
                return (calls.lengths, calls)
            }
        }

        private let single = [1000, 1000, 1000, 1000]

        @Test("Without a refusal the clock is not read")
        func nothing() throws {
            let sender = Sender()
            let (lengths, calls) = try sender.send(near, far)
            #expect(lengths == [4000, 4000])
            #expect(!calls.isTimeAsked && sender.refusals.isEmpty)
        }

        @Test("A path that is too narrow costs one refusal, until it is tried again", arguments: [EMSGSIZE, EINVAL])
        func path(code: Int32) throws {
            let sender = Sender()
            // Without a success before, EINVAL might mean that the system cannot do it at all.
            _ = try sender.send(far)
            #expect(try sender.send(near, script: [.fail(code)]).lengths == single)
            let later = try sender.send(near, far)
            #expect(later.lengths == single + [4000], "and other paths are none the worse")
            #expect(later.calls.calls.count == 1)
            sender.time += 9
            #expect(try sender.send(near).lengths == single)
            sender.time += 2
            #expect(try sender.send(near).lengths == [4000], "tried again, and it worked")
            #expect(sender.refusals.isEmpty)
        }

        @Test("As long as it is refused, it is tried more and more rarely, but never not at all")
        func backoff() throws {
            let sender = Sender()
            _ = try sender.send(near, script: [.fail(EMSGSIZE)])
            for period: Int64 in [10, 20, 40, 80, 160, 320, 320, 320] {
                sender.time += period - 1
                #expect(try sender.send(near).lengths == single, "\(period)")
                sender.time += 1
                let (lengths, calls) = try sender.send(near, script: [.fail(EMSGSIZE)])
                #expect(lengths == single)
                #expect(calls.calls.count == 2, "\(period)")
            }
            // It worked for long, or nothing was sent: the next time is like the first.
            sender.time += 2000
            _ = try sender.send(near, script: [.fail(EMSGSIZE)])
            sender.time += 10
            #expect(try sender.send(near).lengths == [4000])
        }

        @Test("Shorter datagrams are joined all the same")
        func shorter() throws {
            let sender = Sender()
            _ = try sender.send(near, size: 1000, script: [.fail(EMSGSIZE)])
            #expect(try sender.send(near, size: 999).lengths == [3996])
            #expect(try sender.send(near, size: 1001).lengths == [1001, 1001, 1001, 1001])
            #expect(try sender.send(near, size: 500, script: [.fail(EMSGSIZE)]).lengths == [500, 500, 500, 500])
            #expect(try sender.send(near, size: 999).lengths == [999, 999, 999, 999])
            #expect(try sender.send(near, size: 499).lengths == [1996])
        }

        @Test("A path does not depend on the port and the source")
        func samePath() throws {
            let sender = Sender()
            var other = near
            other.port = 10
            other.source.low = 7
            _ = try sender.send(near, script: [.fail(EMSGSIZE)])
            #expect(try sender.send(other).lengths == single)
        }

        @Test("A device that cannot do it costs one refusal for all paths", arguments: [EIO, EINVAL])
        func device(code: Int32) throws {
            let sender = Sender()
            #expect(try sender.send(near, far, script: [.fail(code)]).lengths == single + single)
            #expect(try sender.send(far).lengths == single)
            sender.time += 11
            #expect(try sender.send(far).lengths == [4000])
            #expect(try sender.send(near).lengths == [4000])
            #expect(sender.refusals.isEmpty)
        }

        @Test("More paths than are remembered are still served")
        func manyPaths() throws {
            let sender = Sender()
            for round in 0..<2 {
                for address in 0..<600 {
                    let endpoint = Endpoint(address: .v6(1, UInt64(address)), port: 1)
                    let (lengths, _) = try sender.send(endpoint, script: round == 0 ? [.fail(EMSGSIZE)] : [])
                    #expect(lengths == single || round == 1 && lengths == [4000])
                }
            }
        }

        @Test("A source that vanished is not taken for a path that is too narrow")
        func staleSource() throws {
            let sender = Sender()
            var endpoint = near
            endpoint.source.low = 7
            #expect(try sender.send(endpoint, script: [.fail(EINVAL), .fail(EINVAL)]).lengths == single)
            #expect(sender.refusals.isEmpty)
            #expect(try sender.send(near).lengths == [4000])
        }
    }
#endif
