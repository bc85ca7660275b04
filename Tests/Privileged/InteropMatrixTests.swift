// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Interoperation", .timeLimit(.minutes(5)))
        struct InteropMatrixTests {
            /// The initiator and the responder.
            struct Ends: CustomTestStringConvertible, Sendable {
                var initiator: DaemonProgram
                var responder: DaemonProgram

                var testDescription: String { "\(initiator.rawValue) to \(responder.rawValue)" }

                static let all = [
                    Ends(initiator: .culvert, responder: .wireguardGo),
                    Ends(initiator: .wireguardGo, responder: .culvert),
                    Ends(initiator: .culvert, responder: .culvert),
                ]
            }

            /// The outer packets of a handshake.
            enum Outside: CaseIterable, Sendable {
                case v4, v6, v4WithPresharedKey, v6WithPresharedKey

                var options: PairOptions {
                    var options = PairOptions()
                    options.outer = self == .v4 || self == .v4WithPresharedKey ? .v4 : .v6
                    options.hasPresharedKey = self == .v4WithPresharedKey || self == .v6WithPresharedKey
                    return options
                }
            }

            @Test("Pings of all sizes and TCP pass both ways", arguments: Ends.all, Outside.allCases)
            func matrix(_ ends: Ends, _ outside: Outside) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder, outside.options)
                for family in [IPFamily.v4, .v6] {
                    let most = pair.options.innerMTU - (family == .v4 ? 28 : 48)
                    try pair.ping(from: pair.left, family, sizes: [0, 1, 15, 16, 17, most - 1, most])
                    try pair.ping(from: pair.right, family, sizes: [most])
                    try InteropTraffic.exchange(pair, family)
                }
                let seenByLeft = try pair.left.peer(pair.right)
                let seenByRight = try pair.right.peer(pair.left)
                #expect(seenByLeft.endpoint == pair.right.endpoint(pair.options.outer))
                #expect(seenByRight.endpoint == pair.left.endpoint(pair.options.outer))
                #expect((seenByLeft.presharedKey == "(none)") == !pair.options.hasPresharedKey)
                #expect(seenByLeft.latestHandshake > 0)
                #expect(seenByRight.latestHandshake > 0)
            }

            @Test("Another pre-shared key, or none, makes no session", arguments: Ends.all)
            func wrongPresharedKey(_ ends: Ends) throws {
                var options = PairOptions()
                options.hasPresharedKey = true
                let pair = try TunnelPair(ends.initiator, ends.responder, options)
                try Wg.run(
                    "set", pair.left.name, "peer", pair.right.keys.publicKey.base64, "preshared-key", "/dev/null")
                #expect(try !pair.isReached(from: pair.left))
                #expect(try pair.left.peer(pair.right).latestHandshake == 0)
                // An initiation was sent, but this end cannot use the answer.
                #expect(try pair.right.peer(pair.left).received >= 148)
            }

            @Test("UDP datagrams of every length are delivered as they were sent", arguments: Ends.all)
            func everyLength(_ ends: Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                try InteropTraffic.echo(pair, .v4, lengths: 0...(pair.options.innerMTU - 28))
                try InteropTraffic.echo(pair, .v6, lengths: stride(from: 0, through: pair.options.innerMTU - 48, by: 7))
            }

            /// Extreme MTUs: the minimum of IPv4 and of IPv6, and the maximum of links.
            struct Sizes: CustomTestStringConvertible, Sendable {
                var inner: Int
                var outer: Int
                var family: IPFamily

                var testDescription: String { "\(inner) in \(outer), \(family)" }

                static let all = [
                    Sizes(inner: 576, outer: 1500, family: .v4),
                    Sizes(inner: 1280, outer: 1360, family: .v6),
                    Sizes(inner: 34_816 - 80, outer: 34_816, family: .v4),
                    Sizes(inner: 65_535 - 80, outer: 65_535, family: .v6),
                ]
            }

            @Test("The extremes of the MTU work", arguments: Ends.all, Sizes.all)
            func mtu(_ ends: Ends, _ sizes: Sizes) throws {
                var options = PairOptions()
                options.outer = sizes.family
                options.outerMTU = sizes.outer
                options.innerMTU = sizes.inner
                let pair = try TunnelPair(ends.initiator, ends.responder, options)
                for family in [IPFamily.v4, .v6] where family == .v4 || options.hasInnerIPv6 {
                    let most = sizes.inner - (family == .v4 ? 28 : 48)
                    try pair.ping(from: pair.left, family, sizes: [0, most / 2, most - 1, most])
                    try InteropTraffic.exchange(pair, family)
                }
            }

            @Test("An underlay smaller than the packets: they are fragmented and arrive", arguments: Ends.all)
            func fragmentedUnderlay(_ ends: Ends) throws {
                var options = PairOptions()
                options.outerMTU = 1280
                let pair = try TunnelPair(ends.initiator, ends.responder, options)
                try pair.ping(from: pair.left, sizes: [0, 1200, 1392])
                try InteropTraffic.exchange(pair, .v4, byteCount: 1 << 18)
            }

            @Test("Bulk TCP by iperf3 passes both ways", arguments: Ends.all)
            func bulk(_ ends: Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                try pair.ping(from: pair.left)
                for direction in [[], ["-R"]] {
                    let server = try pair.right.namespace.start(
                        "iperf3", "-s", "-1", "-B", pair.right.inner4, "--forceflush")
                    try server.waitForOutput(containing: "listening")
                    let command =
                        [
                            "ip", "netns", "exec", pair.left.namespace.name, "iperf3", "-J", "-c", pair.right.inner4,
                            "-n", "16M",
                        ]
                        + direction
                    let report = try PrivilegedTests.run(command, deadline: .seconds(60)).output
                    let received = try #require(Self.received(report), "\(report)")
                    // Data that is still buffered when the client ends does not count.
                    #expect(received > 10 << 20)
                    #expect(try server.wait().status == 0)
                }
            }

            private static func received(_ report: String) -> Int? {
                let object = try? JSONSerialization.jsonObject(with: Data(report.utf8)) as? [String: Any]
                let end = object?["end"] as? [String: Any]
                let sum = end?["sum_received"] as? [String: Any]
                return sum?["bytes"] as? Int
            }
        }
    }
#endif
