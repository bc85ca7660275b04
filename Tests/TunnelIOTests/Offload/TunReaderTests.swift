// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Testing

    @testable import TunnelIO

    /// Frames as a TUN device gives them: ten bytes of the kernel's, and a packet that these may lie about.
    @Suite("Frames with virtio headers")
    struct TunReaderTests {
        /// One frame and what becomes of it.
        struct Scene: CustomTestStringConvertible, Sendable {
            var testDescription: String
            var header = VirtioHeader()
            var packet: [UInt8]
            /// The packets; `nil` for a frame that is refused.
            var expected: [[UInt8]]?
        }

        /// Takes up frames one after the other, each only once the one before is used up.
        private func read(_ frames: [[UInt8]]) throws -> [[[UInt8]]?] {
            let reader = try TunReader(isUsed: true)
            return frames.map { frame in
                unsafe reader.frame.copyBytes(from: frame)
                guard reader.accept(frame.count, TunFraming(hasVirtioHeader: true)) else {
                    #expect(reader.nextLength == nil)
                    return nil
                }
                var packets: [[UInt8]] = []
                while let length = reader.nextLength {
                    var packet = [UInt8](repeating: 0xee, count: length + 16)
                    unsafe packet.withUnsafeMutableBytes { out in
                        guard let out = out.baseAddress else { return }
                        unsafe reader.writeNext(to: out)
                    }
                    #expect(packet[length...].allSatisfy { $0 == 0xee }, "wrote beyond the packet")
                    packets.append(Array(packet[..<length]))
                }
                return packets
            }
        }

        private static func frame(_ header: VirtioHeader, _ packet: [UInt8]) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: VirtioHeader.length)
            unsafe bytes.withUnsafeMutableBytes { unsafe header.store(to: $0) }
            return bytes + packet
        }

        private static let scenes: [Scene] = {
            var scenes: [Scene] = []
            func add(_ name: String, _ packet: [UInt8], _ expected: [[UInt8]]?, _ change: (inout VirtioHeader) -> Void)
            {
                var header = VirtioHeader()
                change(&header)
                scenes.append(Scene(testDescription: name, header: header, packet: packet, expected: expected))
            }
            var flow = FlowBuilder()
            let whole = flow.packet(pattern(100, seed: 1))
            add("a whole packet", whole, [whole]) { _ in }
            add("a whole packet whose checksum was looked at", whole, [whole]) { $0.flags = 2 }
            add("a whole packet with a lie for a header's length", whole, [whole]) { $0.headerLength = 0xffff }
            add("whatever else is in the header of a whole packet", whole, [whole]) {
                $0.segmentSize = 9
                $0.checksumStart = 0xffff
                $0.checksumOffset = 0xffff
            }
            add("nothing behind the header", [], nil) { _ in }
            add("nothing behind the header of a superframe", [], nil) {
                $0.flags = 1
                $0.segmentation = 1
                $0.segmentSize = 100
            }
            add("one byte", [0x45], [[0x45]]) { _ in }

            let (open, incomplete) = superframe(FlowBuilder(), payload: pattern(100, seed: 1), size: 100)
            func complete(_ change: @escaping (inout VirtioHeader) -> Void) -> (inout VirtioHeader) -> Void {
                { header in
                    header = open
                    header.segmentation = 0
                    change(&header)
                }
            }
            add("a checksum left out", incomplete, [whole], complete { _ in })
            add("a checksum that begins at the end", incomplete, nil, complete { $0.checksumStart = 152 })
            add("a checksum field half outside", incomplete, nil, complete { $0.checksumOffset = 131 })
            add("a checksum that begins outside", incomplete, nil, complete { $0.checksumStart = 0xffff })
            add("a checksum field outside", incomplete, nil, complete { $0.checksumOffset = 0xffff })

            for (isIPv6, isTCP) in [(false, true), (true, true), (false, false), (true, false)] {
                var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
                flow.identifier = 0xffff
                let (open, frame) = superframe(flow, payload: pattern(250, seed: 2), size: 100)
                let payload = pattern(250, seed: 2)
                let packets = [0..<100, 100..<200, 200..<250].map { flow.packet(Array(payload[$0])) }
                let name = "\(isTCP ? "TCP" : "UDP") over IPv\(isIPv6 ? 6 : 4)"
                func lie(_ change: @escaping (inout VirtioHeader) -> Void) -> (inout VirtioHeader) -> Void {
                    { header in
                        header = open
                        change(&header)
                    }
                }
                add("\(name): a superframe", frame, packets, lie { _ in })
                for length: UInt16 in [0, 1, 20, 0xffff] {
                    add("\(name): a headers' length of \(length)", frame, packets, lie { $0.headerLength = length })
                }
                add("\(name): segments of no length", frame, nil, lie { $0.segmentSize = 0 })
                add(
                    "\(name): segments longer than all", frame, [flowPacket(flow, frame, payload)],
                    lie { $0.segmentSize = 251 })
                add("\(name): no checksum to be completed", frame, nil, lie { $0.flags = 0 })
                add("\(name): a checksum that begins outside", frame, nil, lie { $0.checksumStart = 0xffff })
                add("\(name): a checksum that begins a byte late", frame, nil, lie { $0.checksumStart += 1 })
                add("\(name): a checksum field outside", frame, nil, lie { $0.checksumOffset = 0xffff })
                add("\(name): of another protocol", frame, nil, lie { $0.segmentation = isTCP ? 5 : (isIPv6 ? 4 : 1) })
                if isTCP { add("\(name): of the other family", frame, nil, lie { $0.segmentation = isIPv6 ? 1 : 4 }) }
                for kind: UInt8 in [2, 3, 6, 0x7f, 0x80] {
                    add("\(name): of kind \(kind)", frame, nil, lie { $0.segmentation = kind })
                }
                add("\(name): a byte too few", Array(frame.dropLast()), nil, lie { _ in })
                add("\(name): a byte too many", frame + [0], nil, lie { _ in })
            }
            return scenes
        }()

        /// The one packet that a superframe with one segment stands for.
        private static func flowPacket(_ flow: FlowBuilder, _ frame: [UInt8], _ payload: [UInt8]) -> [UInt8] {
            // Of the state that the table's flow had at first.
            var flow = flow
            flow.sequence &-= UInt32(payload.count)
            flow.identifier &-= 3
            return flow.packet(payload)
        }

        @Test("The kernel's description is checked against the packet", arguments: scenes)
        func scene(_ scene: Scene) throws {
            let frame = Self.frame(scene.header, scene.packet)
            // A refused frame does not affect the next one.
            let after = Self.scenes[0]
            let read = try read([frame, Self.frame(after.header, after.packet)])
            #expect(read[0] == scene.expected)
            #expect(read[1] == after.expected)
        }

        @Test("A frame of fewer than ten bytes is refused", arguments: 0..<10)
        func short(length: Int) throws {
            #expect(try read([[UInt8](repeating: 0, count: length)]) == [nil])
        }

        @Test("A frame may be cut bit by bit, over as many batches as it takes")
        func manySegments() throws {
            let (header, packet) = superframe(FlowBuilder(), payload: pattern(1000, seed: 1), size: 1)
            let reader = try TunReader(isUsed: true)
            unsafe reader.frame.copyBytes(from: Self.frame(header, packet))
            #expect(reader.accept(packet.count + 10, TunFraming(hasVirtioHeader: true)))
            var flow = FlowBuilder()
            for byte in pattern(1000, seed: 1) {
                let length = try #require(reader.nextLength)
                var out = [UInt8](repeating: 0, count: length)
                unsafe out.withUnsafeMutableBytes { out in
                    guard let out = out.baseAddress else { return }
                    unsafe reader.writeNext(to: out)
                }
                let expected = flow.packet([byte])
                guard out == expected else {
                    Issue.record("\(out) for \(expected)")
                    return
                }
            }
            #expect(reader.nextLength == nil)
        }
    }
#endif
