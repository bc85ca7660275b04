// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Cutting superframes")
struct SegmentSplitterTests {
    /// A superframe as the kernel hands it over: a pseudo-header's sum in the checksum field.
    private func superframe(
        _ flow: FlowBuilder, payload: [UInt8], size: UInt16, flags: UInt8 = 0x10
    ) -> (VirtioHeader, [UInt8]) {
        var flow = flow
        var packet = flow.packet(payload, flags: flags)
        var header = VirtioHeader()
        header.flags = VirtioHeader.needsChecksum
        header.segmentation =
            flow.isTCP
            ? (flow.isIPv6 ? VirtioHeader.Segmentation.tcp6 : VirtioHeader.Segmentation.tcp4)
            : VirtioHeader.Segmentation.udp
        header.segmentSize = size
        header.headerLength = 3  // A lie, to be ignored.
        header.checksumStart = UInt16(flow.transport)
        header.checksumOffset = flow.isTCP ? 16 : 6
        packet[flow.transport + Int(header.checksumOffset)] = 0x12
        return (header, packet)
    }

    @Test(
        "Each packet is what the sender would have made by itself",
        arguments: [
            (false, true), (true, true), (false, false), (true, false),
        ], [1, 99, 100, 101, 250, 300])
    func table(kind: (isIPv6: Bool, isTCP: Bool), length: Int) throws {
        var flow = FlowBuilder(isIPv6: kind.isIPv6, isTCP: kind.isTCP)
        flow.sequence = 0xffff_ff9c
        flow.identifier = 0xffff
        let payload = pattern(length, seed: length)
        let (header, frame) = superframe(flow, payload: payload, size: 100, flags: 0x19)
        let packets = try #require(split(header, frame))
        var expected: [[UInt8]] = []
        for start in stride(from: 0, to: length, by: 100) {
            let isLast = start + 100 >= length
            expected.append(flow.packet(Array(payload[start..<min(start + 100, length)]), flags: isLast ? 0x19 : 0x10))
        }
        #expect(packets == expected)
    }

    @Test("Only the first packet says that the window was reduced")
    func congestion() throws {
        var (header, frame) = superframe(FlowBuilder(), payload: pattern(30, seed: 1), size: 10, flags: 0x90)
        header.segmentation |= VirtioHeader.Segmentation.congestion
        let packets = try #require(split(header, frame))
        #expect(packets.map { $0[33] } == [0x90, 0x10, 0x10])
    }

    @Test("A UDP checksum that comes to zero is sent as all ones")
    func zeroChecksum() throws {
        var flow = FlowBuilder(isTCP: false)
        let open = flow.packet([0, 0])
        let word = Array(open[26..<28])
        let (header, frame) = superframe(FlowBuilder(isTCP: false), payload: word + word, size: 2)
        for packet in try #require(split(header, frame)) { #expect(packet[26..<28] == [0xff, 0xff]) }
    }

    @Test("Extension headers of IPv6 stay, and count")
    func extensionHeaders() throws {
        var flow = FlowBuilder(isIPv6: true)
        var (header, frame) = superframe(flow, payload: pattern(25, seed: 1), size: 10)
        frame.insert(contentsOf: [6, 0, 1, 4, 0, 0, 0, 0], at: 40)
        frame[6] = 0
        header.checksumStart = 48
        let packets = try #require(split(header, frame))
        #expect(packets.map { Int($0[4]) << 8 | Int($0[5]) } == packets.map { $0.count - 40 })
        let plain = flow.packet(Array(pattern(25, seed: 1)[..<10]))
        #expect(Array(packets[0][48...]) == Array(plain[40...]))
    }

    @Test("As many packets as there are bytes")
    func many() throws {
        let (header, frame) = superframe(FlowBuilder(), payload: pattern(60_000, seed: 1), size: 1)
        #expect(split(header, frame)?.count == 60_000)
    }

    @Test("Headers that lie are refused")
    func malformed() {
        let (good, frame) = superframe(FlowBuilder(), payload: pattern(300, seed: 1), size: 100)
        #expect(split(good, frame)?.count == 3)
        var refused: [(VirtioHeader, [UInt8])] = []
        func lie(_ frame: [UInt8] = [], _ change: (inout VirtioHeader) -> Void) {
            var header = good
            change(&header)
            refused.append((header, frame))
        }
        lie(frame) { $0.segmentSize = 0 }
        lie(frame) { $0.flags = 0 }
        lie(frame) { $0.segmentation = 4 }
        lie(frame) { $0.segmentation = 5 }
        lie(frame) { $0.segmentation = 3 }
        lie(frame) { $0.checksumStart = 0 }
        lie(frame) { $0.checksumStart = 19 }
        lie(frame) { $0.checksumStart = 24 }
        lie(frame) { $0.checksumStart = 0xffff }
        lie(frame) { $0.checksumOffset = 0xffff }
        lie(frame) { $0.checksumOffset = 6 }
        lie { _ in }
        lie(Array(frame[..<19])) { _ in }
        lie(Array(frame[..<39])) { _ in }
        lie(Array(frame[..<51])) { _ in }
        var short = frame
        short[32] = 0x40
        lie(short) { _ in }
        var other = frame
        other[9] = 17
        lie(other) { _ in }
        for (header, frame) in refused { #expect(split(header, frame) == nil) }
    }

    @Test("No frame traps", arguments: 0..<20)
    func fuzz(seed: UInt64) {
        var random = SplitMix(seed)
        var accepted = 0
        for _ in 0..<300 {
            let isIPv6 = Bool.random(using: &random)
            let isTCP = Bool.random(using: &random)
            var (header, frame) = superframe(
                FlowBuilder(isIPv6: isIPv6, isTCP: isTCP), payload: pattern(200, seed: 3), size: 50)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                frame[Int.random(in: 0..<80, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            frame.removeLast(Int.random(in: 0...frame.count / 2, using: &random))
            if Bool.random(using: &random) { header.checksumStart = UInt16.random(in: 0...300, using: &random) }
            if Bool.random(using: &random) { header.segmentSize = UInt16.random(in: 0...300, using: &random) }
            if let packets = split(header, frame) {
                accepted += 1
                #expect(packets.allSatisfy { $0.count <= frame.count })
            }
        }
        #expect(accepted > 0)
    }
}

@Suite("Offload switches")
struct OffloadOptionsTests {
    @Test("Each switch turns off its own")
    func switches() {
        #expect(OffloadOptions { _ in nil } == OffloadOptions())
        #expect(OffloadOptions { _ in "1" } == OffloadOptions())
        #expect(OffloadOptions { _ in "0" } == .none)
        let names: [(String, KeyPath<OffloadOptions, Bool>)] = [
            ("CULVERT_UDP_GSO", \.udpSegmentation), ("CULVERT_UDP_GRO", \.udpCoalescing),
            ("CULVERT_TUN_TSO", \.tunTCPSegmentation), ("CULVERT_TUN_USO", \.tunUDPSegmentation),
            ("CULVERT_TUN_TCP_GRO", \.tunTCPCoalescing), ("CULVERT_TUN_UDP_GRO", \.tunUDPCoalescing),
        ]
        for (name, path) in names {
            let options = OffloadOptions { $0 == name ? "0" : nil }
            for (other, otherPath) in names { #expect(options[keyPath: otherPath] == (other != name)) }
            #expect(!options[keyPath: path])
        }
        #expect(!OffloadOptions.none.wantsVirtioHeader)
    }
}
