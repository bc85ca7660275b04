// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

@Suite("The envelope of messages")
struct MessageContainerTests {
    static let example = MessageContainer(
        kind: .request, name: "culvert.status", version: 3, correlation: 0x0102_0304_0506_0708,
        payload: Array(#"{"verbose":true}"#.utf8))

    @Test("The bytes are as documented")
    func layout() throws {
        let bytes = try Self.example.encoded()
        let header: [UInt8] = [
            0x43, 0x56, 0x54, 0x4d, 1, 1, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 14, 0, 0, 0, 16,
        ]
        #expect(Array(bytes.prefix(22)) == header)
        #expect(bytes.dropFirst(22).elementsEqual(#"culvert.status{"verbose":true}"#.utf8))
    }

    @Test("An encoded container decodes to the same value", arguments: MessageContainer.Kind.allCases)
    func roundTrip(kind: MessageContainer.Kind) throws {
        var generator = SeededGenerator(seed: UInt64(kind.rawValue))
        for byteCount in [0, 1, 2, 255, 256, 65_535, 65_536] {
            let container = MessageContainer(
                kind: kind, name: String(repeating: "n", count: generator.int(in: 1...255)),
                version: UInt16(truncatingIfNeeded: generator.next()), correlation: generator.next(),
                payload: generator.bytes(byteCount))
            #expect(try MessageContainer(decoding: container.encoded()) == container)
        }
    }

    @Test("Every shorter or longer form is refused")
    func lengths() throws {
        let bytes = try Self.example.encoded()
        for count in 0..<bytes.count {
            #expect(throws: MessageContainerError.self) { try MessageContainer(decoding: Array(bytes.prefix(count))) }
        }
        #expect(throws: MessageContainerError.lengthMismatch(stated: bytes.count, actual: bytes.count + 1)) {
            try MessageContainer(decoding: bytes + [0])
        }
    }

    @Test("Damaged bytes give an error or a container that encodes to them, and never a trap")
    func mutations() throws {
        let bytes = try Self.example.encoded()
        var generator = SeededGenerator(seed: 0xc0ffee)
        var accepted = 0
        for _ in 0..<20_000 {
            var damaged = bytes
            for _ in 0..<generator.int(in: 1...4) {
                switch generator.int(in: 0...3) {
                case 0 where !damaged.isEmpty: damaged.removeLast(generator.int(in: 1...damaged.count))
                case 1: damaged += generator.bytes(generator.int(in: 1...8))
                default:
                    guard !damaged.isEmpty else { continue }
                    // Mostly in the header, where it matters.
                    let end = generator.chance(0.7) ? min(24, damaged.count) : damaged.count
                    damaged[generator.int(in: 0..<end)] = UInt8(truncatingIfNeeded: generator.next())
                }
            }
            do {
                let container = try MessageContainer(decoding: damaged)
                #expect(try container.encoded() == damaged)
                accepted += 1
            } catch {
                #expect(!"\(error)".isEmpty)
            }
        }
        #expect(accepted > 100)
    }

    @Test("Foreign bytes, other formats and unknown kinds have distinct errors")
    func foreign() throws {
        var bytes = try Self.example.encoded()
        bytes[0] = 0x7b
        #expect(throws: MessageContainerError.notAMessage) { try MessageContainer(decoding: bytes) }
        bytes[0] = 0x43
        bytes[4] = 2
        #expect(throws: MessageContainerError.unsupportedFormat(2)) { try MessageContainer(decoding: bytes) }
        bytes[4] = 1
        bytes[5] = 99
        #expect(throws: MessageContainerError.unknownKind(99)) { try MessageContainer(decoding: bytes) }
        bytes[5] = 1
        bytes[22] = 0xff
        #expect(throws: MessageContainerError.invalidName) { try MessageContainer(decoding: bytes) }
    }

    @Test("A length in a header beyond the limit is refused")
    func hugeLengths() throws {
        var bytes = try Self.example.encoded()
        for index in 16..<22 { bytes[index] = 0xff }
        #expect(throws: MessageContainerError.lengthMismatch(stated: 22 + 65_535 + 4_294_967_295, actual: bytes.count))
        {
            try MessageContainer(decoding: bytes)
        }
    }

    @Test("The limit holds both ways")
    func limit() throws {
        let count = try Self.example.encoded().count
        #expect(throws: MessageContainerError.tooLarge(byteCount: count, limit: count - 1)) {
            try Self.example.encoded(limit: count - 1)
        }
        let bytes = try Self.example.encoded(limit: count)
        #expect(throws: MessageContainerError.tooLarge(byteCount: count, limit: count - 1)) {
            try MessageContainer(decoding: bytes, limit: count - 1)
        }
        #expect(try MessageContainer(decoding: bytes, limit: count) == Self.example)
    }

    @Test("Names are checked", arguments: ["", "a b", "grüezi", "a/b", "a\n", String(repeating: "x", count: 256)])
    func invalidNames(name: String) {
        #expect(!MessageContainer.isValidName(name))
        let container = MessageContainer(kind: .request, name: name, version: 1, correlation: 1, payload: [])
        #expect(throws: MessageContainerError.invalidName) { try container.encoded() }
    }
}
