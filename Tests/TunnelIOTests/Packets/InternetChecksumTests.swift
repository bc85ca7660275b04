// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("InternetChecksum")
struct InternetChecksumTests {
    @Test("The example of RFC 1071, section 3, holds")
    func example() {
        let bytes: [UInt8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]
        #expect(unsafe bytes.withUnsafeBytes { unsafe InternetChecksum.sum($0) } == 0xddf2)
        #expect(unsafe bytes.withUnsafeBytes { unsafe InternetChecksum.of($0) } == ~0xddf2)
    }

    @Test("Every length from 0 to 2048 agrees with summing word by word")
    func everyLength() {
        var generator = SplitMix(1)
        let bytes = (0..<2050).map { _ in UInt8.random(in: 0...255, using: &generator) }
        for length in 0...2048 {
            // Not always aligned.
            let part = bytes[(length % 3)...].prefix(length)
            let sum = unsafe part.withUnsafeBytes { unsafe InternetChecksum.sum($0) }
            guard sum == slowSum(part) else {
                Issue.record("length \(length): \(sum)")
                return
            }
        }
    }

    @Test("All bits set, for as long as a packet may be, loses no carry", arguments: [65_534, 65_535])
    func carries(_ length: Int) {
        let bytes = [UInt8](repeating: 0xff, count: length)
        #expect(unsafe bytes.withUnsafeBytes { unsafe InternetChecksum.sum($0) } == slowSum(bytes[...]))
    }

    @Test("Parts of any length give the sum of the whole")
    func parts() {
        var generator = SplitMix(3)
        for _ in 0..<200 {
            let bytes = (0..<Int.random(in: 0...300, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            var checksum = InternetChecksum()
            var rest = bytes[...]
            while !rest.isEmpty {
                let length = Int.random(in: 0...rest.count, using: &generator)
                unsafe rest.prefix(length).withUnsafeBytes { unsafe checksum.add($0) }
                rest = rest.dropFirst(length)
            }
            #expect(checksum.partial == slowSum(bytes[...]))
            #expect(checksum.value == ~checksum.partial)
        }
    }

    @Test("Numbers are added as their bytes in network order")
    func numbers() {
        var checksum = InternetChecksum()
        checksum.add(UInt16(0x0102))
        checksum.add(UInt32(0x0304_0506))
        checksum.add(UInt64(0x0708_090a_0b0c_0d0e))
        #expect(checksum.partial == slowSum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]))
    }

    @Test("Removing a word leaves the sum of the other words")
    func removal() {
        var checksum = InternetChecksum()
        let bytes: [UInt8] = [0xfe, 0x01, 0xf2, 0x03, 0xf4, 0xf5]
        unsafe bytes.withUnsafeBytes { unsafe checksum.add($0) }
        checksum.subtract(0xf203)
        #expect(checksum.partial == slowSum([0xfe, 0x01, 0xf4, 0xf5]))
    }

    /// RFC 1071 as written: 16 bits at a time, with the carry brought round each time.
    private func slowSum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        var sum: UInt32 = 0
        var index = bytes.startIndex
        while index < bytes.endIndex {
            let low = index + 1 < bytes.endIndex ? UInt32(bytes[index + 1]) : 0
            sum += UInt32(bytes[index]) << 8 | low
            sum = (sum & 0xffff) + (sum >> 16)
            index += 2
        }
        return UInt16(sum)
    }
}
