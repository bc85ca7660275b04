// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Copying and summing in one pass")
struct ChecksummedCopyTests {
    /// Copies `count` bytes from one misalignment to another; `nil` if the copy, its surroundings or the sum are wrong.
    private func failure(_ bytes: [UInt8], _ count: Int, from source: Int, to target: Int) -> String? {
        var out = [UInt8](repeating: 0xa5, count: target + count + 70)
        let (sum, plain) = unsafe bytes.withUnsafeBytes { bytes in
            unsafe out.withUnsafeMutableBytes { out -> (UInt16, UInt16) in
                guard let from = bytes.baseAddress, let to = out.baseAddress else { return (0, 1) }
                var checksum = InternetChecksum()
                unsafe checksum.add(copying: from + source, to: to + target, count: count)
                return unsafe (
                    checksum.partial,
                    InternetChecksum.sum(UnsafeRawBufferPointer(start: from + source, count: count))
                )
            }
        }
        // Zero and all ones are the same number; which of them it is depends on nothing but the bytes.
        if sum != plain { return "sum \(sum) for \(plain)" }
        if out[target..<target + count] != bytes[source..<source + count] { return "copied wrongly" }
        if out[..<target].contains(where: { $0 != 0xa5 }) || out[(target + count)...].contains(where: { $0 != 0xa5 }) {
            return "wrote outside"
        }
        return nil
    }

    @Test("Every short length is copied and summed, from every alignment to every other")
    func alignments() {
        let bytes = pattern(300, seed: 1)
        for length in 0...140 {
            for source in 0..<8 {
                for target in 0..<8 {
                    if let failure = failure(bytes, length, from: source, to: target) {
                        Issue.record("\(length) bytes from \(source) to \(target): \(failure)")
                        return
                    }
                }
            }
        }
    }

    @Test(
        "Longer ones are copied and summed too, odd and even",
        arguments: [255, 256, 257, 1279, 1280, 1448, 1500, 9001, 65_534, 65_535])
    func lengths(length: Int) {
        let bytes = pattern(length + 3, seed: length)
        #expect(failure(bytes, length, from: 0, to: 0) == nil)
        #expect(failure(bytes, length, from: 3, to: 1) == nil)
    }

    @Test("All bits set loses no carry, none gives none", arguments: [1, 2, 63, 64, 65, 65_535])
    func extremes(length: Int) {
        #expect(failure([UInt8](repeating: 0xff, count: length), length, from: 0, to: 0) == nil)
        #expect(failure([UInt8](repeating: 0, count: length), length, from: 0, to: 5) == nil)
    }
}
