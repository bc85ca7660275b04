// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@Suite("Seeded generator")
struct SeededGeneratorTests {
    @Test("The outputs are those published for xoshiro256** with state 1, 2, 3, 4")
    func published() {
        var generator = SeededGenerator(state: (1, 2, 3, 4))
        let expected: [UInt64] = [
            11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360, 607_988_272_756_665_600,
        ]
        #expect(expected.map { _ in generator.next() } == expected)
    }

    @Test("Equal seeds give equal sequences, and different seeds different ones")
    func seeds() {
        var (a, b, c) = (SeededGenerator(seed: 3), SeededGenerator(seed: 3), SeededGenerator(seed: 4))
        let first = (0..<100).map { _ in a.next() }
        #expect(first == (0..<100).map { _ in b.next() })
        #expect(first != (0..<100).map { _ in c.next() })
    }

    @Test("Numbers stay in their range and reach both ends")
    func ranges() {
        var generator = SeededGenerator(seed: 8)
        let drawn = (0..<1_000).map { _ in generator.int(in: -3...3) }
        #expect(Set(drawn) == Set(-3...3))
        #expect(Set((0..<1_000).map { _ in generator.int(in: 5..<8) }) == [5, 6, 7])
        #expect(generator.int(in: 7...7) == 7)
        _ = generator.int(in: Int.min...Int.max)
        let doubles = (0..<1_000).map { _ in generator.nextDouble() }
        #expect(doubles.allSatisfy { $0 >= 0 && $0 < 1 })
        #expect(abs(doubles.reduce(0, +) / 1_000 - 0.5) < 0.05)
    }

    @Test("Chances are kept")
    func chances() {
        var generator = SeededGenerator(seed: 9)
        #expect(!(0..<100).contains { _ in generator.chance(0) })
        #expect((0..<100).allSatisfy { _ in generator.chance(1) })
        let hits = (0..<10_000).count { _ in generator.chance(0.3) }
        #expect((2_800...3_200).contains(hits))
    }

    @Test("Bytes come in the number asked for", arguments: [0, 1, 7, 8, 9, 100])
    func byteCounts(_ count: Int) {
        var (a, b) = (SeededGenerator(seed: 2), SeededGenerator(seed: 2))
        let bytes = a.bytes(count)
        #expect(bytes.count == count)
        #expect(bytes == b.bytes(count))
    }
}
