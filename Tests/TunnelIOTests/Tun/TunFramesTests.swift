// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Testing

    @testable import TunnelIO

    /// The behaviour with invalid frames from a kernel or from the other end of a descriptor.
    @Suite("Frames of a Linux TUN device")
    struct TunFramesTests {
        static let framings = [
            TunFraming(hasVirtioHeader: true), TunFraming(hasVirtioHeader: true, hasPacketInformation: true),
        ]

        @Test("A superframe is split with any prefix", arguments: framings)
        func good(_ framing: TunFraming) throws {
            let (header, frame, packets) = try superframe(isTCP: true)
            let reader = try TunReader(isUsed: true)
            #expect(take(header, frame, framing, reader))
            #expect(drain(reader) == packets)
            #expect(reader.nextLength == nil)
        }

        @Test(
            "Superframes that contradict themselves are refused",
            arguments: [
                Lie("no segment size") { $0.segmentSize = 0 },
                Lie("checksum beyond the packet") { $0.checksumStart = 0xffff },
                Lie("checksum offset of another protocol") { $0.checksumOffset = 6 },
                Lie("checksum offset beyond the packet") { $0.checksumOffset = 0xffff },
                Lie("no checksum") { $0.flags = 0 },
                Lie("unknown kind") { $0.segmentation = 2 },
                Lie("another IP version") { $0.segmentation = VirtioHeader.Segmentation.tcp6 },
                Lie("transport inside the IP header") { $0.checksumStart = 12 },
            ])
        func lies(_ lie: Lie) throws {
            for framing in Self.framings {
                var (header, frame, packets) = try superframe(isTCP: true)
                lie.change(&header)
                let reader = try TunReader(isUsed: true)
                #expect(!take(header, frame, framing, reader), "\(lie.name)")
                #expect(reader.nextLength == nil)
                // The reader is as good as before.
                (header, frame, packets) = try superframe(isTCP: true)
                #expect(take(header, frame, framing, reader))
                #expect(drain(reader) == packets)
            }
        }

        @Test("The kernel's word for the length of the headers is not taken", arguments: [UInt16(0), 20, 0xffff])
        func headerLength(_ length: UInt16) throws {
            var (header, frame, packets) = try superframe(isTCP: false)
            header.headerLength = length
            let reader = try TunReader(isUsed: true)
            #expect(take(header, frame, TunFraming(hasVirtioHeader: true), reader))
            #expect(drain(reader) == packets)
        }

        @Test(
            "Frames of every length, cut and grown, never trap, and give packets within the frame", arguments: framings)
        func lengths(_ framing: TunFraming) throws {
            for isTCP in [false, true] {
                let (header, frame, _) = try superframe(isTCP: isTCP)
                let reader = try TunReader(isUsed: true)
                for length in 0...(framing.length + frame.count) {
                    guard store(header, frame, framing, reader, length: length) else { continue }
                    let taken = reader.accept(length, framing)
                    if length <= framing.length { #expect(!taken) }
                    let packets = drain(reader)
                    #expect(packets.allSatisfy { $0.count <= max(0, length - framing.length) })
                }
                // A count larger than the buffer is limited to it.
                _ = reader.accept(Int(UInt16.max) * 2, framing)
                _ = drain(reader)
            }
        }

        @Test("Random headers on random packets never trap", arguments: framings)
        func random(_ framing: TunFraming) throws {
            var generator = SplitMix(21)
            let reader = try TunReader(isUsed: true)
            var taken = 0
            for _ in 0..<5000 {
                var (header, frame, _) = try superframe(isTCP: Bool.random(using: &generator), isSmall: true)
                let small = { (range: ClosedRange<UInt16>) in UInt16.random(in: range, using: &generator) }
                header.flags = UInt8(small(0...3))
                header.segmentation = UInt8(small(0...5)) | (small(0...9) == 0 ? 0x80 : 0)
                header.segmentSize = small(0...40)
                header.checksumStart =
                    [20, 20, 40, small(0...80), small(0...65_535)].randomElement(using: &generator) ?? 0
                header.checksumOffset = [6, 16, small(0...70), small(0...65_535)].randomElement(using: &generator) ?? 0
                frame[Int.random(in: 0..<frame.count, using: &generator)] = UInt8(small(0...255))
                let length = framing.length + Int.random(in: 0...frame.count, using: &generator)
                guard store(header, frame, framing, reader, length: length) else { continue }
                if reader.accept(length, framing) { taken += 1 }
                #expect(drain(reader).allSatisfy { $0.count <= 65_535 })
            }
            #expect(taken > 100)
        }

        // MARK: - Helpers

        struct Lie: Sendable, CustomTestStringConvertible {
            var name: String
            var change: @Sendable (inout VirtioHeader) -> Void
            var testDescription: String { name }

            init(_ name: String, _ change: @escaping @Sendable (inout VirtioHeader) -> Void) {
                self.name = name
                self.change = change
            }
        }

        private func superframe(
            isTCP: Bool, isSmall: Bool = false
        ) throws -> (header: VirtioHeader, frame: [UInt8], packets: [[UInt8]]) {
            var flow = FlowBuilder()
            flow.isTCP = isTCP
            let packets = (0..<4).map { flow.packet([UInt8](repeating: UInt8($0), count: isSmall ? 16 : 100)) }
            let written = try coalesced(packets)
            let only = try #require(written.first)
            #expect(written.count == 1)
            return (only.header, only.bytes, packets)
        }

        private func store(
            _ header: VirtioHeader, _ frame: [UInt8], _ framing: TunFraming, _ reader: TunReader, length: Int
        ) -> Bool {
            let room = unsafe reader.frame
            var bytes = [UInt8](repeating: 0, count: framing.length)
            unsafe bytes.withUnsafeMutableBytes {
                unsafe header.store(to: UnsafeMutableRawBufferPointer(rebasing: $0[framing.virtioOffset...]))
            }
            bytes += frame
            guard room.count >= bytes.count else { return false }
            // Bytes of an earlier read must not count as read.
            unsafe room.initializeMemory(as: UInt8.self, repeating: 0xee)
            unsafe room.copyBytes(from: bytes.prefix(length))
            return true
        }

        private func take(
            _ header: VirtioHeader, _ frame: [UInt8], _ framing: TunFraming, _ reader: TunReader
        ) -> Bool {
            let length = framing.length + frame.count
            return store(header, frame, framing, reader, length: length) && reader.accept(length, framing)
        }

        private func drain(_ reader: TunReader) -> [[UInt8]] {
            var packets: [[UInt8]] = []
            while let length = reader.nextLength {
                var packet = [UInt8](repeating: 0, count: max(length, 1))
                unsafe packet.withUnsafeMutableBytes { out in
                    if let base = out.baseAddress { unsafe reader.writeNext(to: base) }
                }
                packets.append(packet)
            }
            return packets
        }
    }
#endif
