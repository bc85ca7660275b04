// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import Testing
    import WireGuardCore

    @testable import TunnelIO

    extension DaemonTests {
        @Suite("Segmentation offload", .timeLimit(.minutes(5)))
        struct OffloadTests {
            private static let switches = [
                "CULVERT_UDP_GSO", "CULVERT_UDP_GRO", "CULVERT_TUN_TSO", "CULVERT_TUN_USO", "CULVERT_TUN_TCP_GRO",
                "CULVERT_TUN_UDP_GRO",
            ]

            @Test("16 MiB each way arrive as they were sent", arguments: InteropMatrixTests.Ends.all)
            func bulk(_ ends: InteropMatrixTests.Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                try InteropTraffic.exchange(pair, .v4, byteCount: 16 << 20)
                try InteropTraffic.exchange(pair, .v6, byteCount: 4 << 20)
            }

            @Test(
                "With any one switch off, and with all, everything still arrives",
                arguments: switches.map { [$0] } + [switches], InteropMatrixTests.Ends.all)
            func switchedOff(_ off: [String], _ ends: InteropMatrixTests.Ends) throws {
                var options = PairOptions()
                options.environment = off.map { "\($0)=0" }
                let pair = try TunnelPair(ends.initiator, ends.responder, options)
                try InteropTraffic.exchange(pair, .v4, byteCount: 2 << 20)
                try InteropTraffic.exchange(pair, .v6, byteCount: 1 << 20)
                try InteropTraffic.echo(pair, .v4, lengths: [0, 1, 1392, 8000])
            }

            @Test("Over a link with a smaller MTU than the tunnel's, everything still arrives")
            func smallLink() throws {
                var options = PairOptions()
                options.outerMTU = 1280
                let pair = try TunnelPair(.culvert, .culvert, options)
                try InteropTraffic.exchange(pair, .v4, byteCount: 2 << 20)
                try InteropTraffic.exchange(pair, .v6, byteCount: 1 << 20)
            }

            @Test("A device has headers for superframes unless all of that is off")
            func device() throws {
                let namespace = try Namespace()
                let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420, offload: OffloadOptions()) }
                #expect(tun.framing.hasVirtioHeader)
                #expect(tun.writer.joins)
                let plain = try namespace.perform { try LinuxTun(name: "cv1", mtu: 1420, offload: .none) }
                #expect(!plain.framing.hasVirtioHeader)
                #expect(!tun.hasBufferedPackets && !plain.hasBufferedPackets)
            }
        }
    }
#endif
