// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Cutting superframes")
struct SegmentSplitterTests {
    @Test(
        "Each packet is equal to one that the sender would have sent separately",
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

    @Test("A UDP checksum of zero is sent as all ones")
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
        frame[5] += 8
        // The kernel's content of the field: the sum of the pseudo-header, whose length excludes the extension.
        frame.replaceSubrange(64..<66, with: pseudoHeaderSum(frame, transport: 48, isTCP: true))
        let packets = try #require(split(header, frame))
        #expect(packets.map { Int($0[4]) << 8 | Int($0[5]) } == packets.map { $0.count - 40 })
        let plain = flow.packet(Array(pattern(25, seed: 1)[..<10]))
        #expect(Array(packets[0][48...]) == Array(plain[40...]))
    }

    @Test("A superframe can be split into packets of one byte")
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

    @Test("As long as it says, or refused: one byte more or less in the packet or in its header", arguments: [-1, 1])
    func wrongLength(difference: Int) {
        for (isIPv6, isTCP) in [(false, true), (true, true), (false, false), (true, false)] {
            let (header, frame) = superframe(
                FlowBuilder(isIPv6: isIPv6, isTCP: isTCP), payload: pattern(300, seed: 1), size: 100)
            #expect(split(header, frame)?.count == 3)
            #expect(split(header, difference > 0 ? frame + [0] : Array(frame.dropLast())) == nil)
            var lying = frame
            lying[isIPv6 ? 5 : 3] &+= UInt8(truncatingIfNeeded: difference)
            #expect(split(header, lying) == nil)
        }
    }

    @Test("No fragment is cut", arguments: [UInt16(0x2000), 0x0001, 0x1fff, 0x3fff])
    func fragments(field: UInt16) {
        for isTCP in [true, false] {
            var flow = FlowBuilder(isTCP: isTCP)
            flow.fragment = field
            let (header, frame) = superframe(flow, payload: pattern(300, seed: 1), size: 100)
            #expect(split(header, frame) == nil)
        }
    }

    @Test("An IPv6 header that leads elsewhere than the kernel says is refused")
    func wrongChain() {
        let (header, frame) = superframe(FlowBuilder(isIPv6: true), payload: pattern(300, seed: 1), size: 100)
        for next: UInt8 in [0, 17, 43, 44, 50, 58, 59, 60] {
            var other = frame
            other[6] = next
            #expect(split(header, other) == nil, "next header \(next)")
        }
        // Extensions: the next header after 40, the length in units of 8 bytes less one, and where TCP begins.
        for (first, extensions, isTaken) in [
            (UInt8(60), [UInt8(6), 0, 0, 0, 0, 0, 0, 0], true), (0, [6, 1] + [UInt8](repeating: 0, count: 14), true),
            (0, [60, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], true),
            (51, [6, 1] + [UInt8](repeating: 0, count: 10), true), (0, [17, 0, 0, 0, 0, 0, 0, 0], false),
            (0, [6, 1, 0, 0, 0, 0, 0, 0], false), (0, [6, 255, 0, 0, 0, 0, 0, 0], false),
            (44, [6, 0, 0, 0, 0, 0, 0, 0], false), (60, [60, 0, 0, 0, 0, 0, 0, 0], false),
        ] as [(UInt8, [UInt8], Bool)] {
            var header = header
            var other = frame
            other.insert(contentsOf: extensions, at: 40)
            let length = other.count - 40
            other.replaceSubrange(4..<7, with: [UInt8(length >> 8), UInt8(length & 255), first])
            header.checksumStart = UInt16(40 + extensions.count)
            #expect((split(header, other) != nil) == isTaken, "\(first) \(extensions)")
        }
    }

    @Test("Behind a routing header the checksum is for the final destination, which only the kernel's sum knows")
    func routingHeader() throws {
        var (header, frame) = superframe(FlowBuilder(isIPv6: true), payload: pattern(250, seed: 1), size: 100)
        let last: [UInt8] = [0x20, 1, 0x0d, 0xb8] + pattern(12, seed: 9)
        frame.insert(contentsOf: [6, 2, 0, 1, 0, 0, 0, 0] + last, at: 40)
        frame[6] = 43
        let length = frame.count - 40
        frame.replaceSubrange(4..<6, with: [UInt8(length >> 8), UInt8(length & 255)])
        header.checksumStart = 64
        frame.replaceSubrange(80..<82, with: pseudoHeaderSum(frame, transport: 64, isTCP: true, target: last))
        let packets = try #require(split(header, frame))
        #expect(packets.count == 3)
        for packet in packets { #expect(isChecksumRight(packet, transport: 64, isTCP: true, target: last)) }
    }

    @Test("So it is behind a source route of IPv4", arguments: [true, false])
    func sourceRoute(isTCP: Bool) throws {
        var (header, frame) = superframe(FlowBuilder(isTCP: isTCP), payload: pattern(250, seed: 1), size: 100)
        let last: [UInt8] = [198, 51, 100, 7]
        frame.insert(contentsOf: [131, 7, 4] + last + [1], at: 20)
        frame[0] = 0x47
        frame.replaceSubrange(2..<4, with: [UInt8(frame.count >> 8), UInt8(frame.count & 255)])
        header.checksumStart = 28
        let field = isTCP ? 44 : 34
        frame.replaceSubrange(
            field..<field + 2, with: pseudoHeaderSum(frame, transport: 28, isTCP: isTCP, target: last))
        for packet in try #require(split(header, frame)) {
            #expect(isChecksumRight(packet, transport: 28, isTCP: isTCP, target: last))
            #expect(unsafe packet[..<28].withUnsafeBytes { unsafe InternetChecksum.of($0) } == 0)
            #expect(packet[20..<28] == frame[20..<28])
        }
    }

    @Test("A TCP checksum of zero stays zero")
    func zeroTCPChecksum() throws {
        var flow = FlowBuilder()
        let open = flow.packet([0, 0])
        let word = Array(open[36..<38])
        let packets = try #require(split(superframe(FlowBuilder(), payload: word, size: 2)))
        #expect(packets.map { Array($0[36..<38]) } == [[0, 0]])
        #expect(isChecksumRight(packets[0], transport: 20, isTCP: true))
    }

    @Test("Options of TCP, the urgent pointer and the window are every packet's")
    func copied() throws {
        var (header, frame) = superframe(FlowBuilder(), payload: pattern(30, seed: 1), size: 10, flags: 0x39)
        frame.replaceSubrange(38..<40, with: [1, 2])
        header.headerLength = 0xffff
        let packets = try #require(split(header, frame))
        for packet in packets {
            #expect(packet[40..<52] == frame[40..<52])
            #expect(packet[34..<36] == frame[34..<36] && packet[38..<40] == [1, 2])
            #expect(isChecksumRight(packet, transport: 20, isTCP: true))
        }
        // Finish and push are the last one's.
        #expect(packets.map { $0[33] } == [0x30, 0x30, 0x39])
    }

    @Test("A superframe without payload is one packet")
    func noPayload() throws {
        for (isIPv6, isTCP) in [(false, true), (true, true), (false, false), (true, false)] {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let packets = try #require(split(superframe(flow, payload: [], size: 100)))
            #expect(packets == [flow.packet([])])
        }
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
            if Bool.random(using: &random) {
                frame.removeLast(Int.random(in: 0...frame.count / 2, using: &random))
            }
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
