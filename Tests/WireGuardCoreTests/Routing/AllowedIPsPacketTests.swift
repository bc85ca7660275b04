// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

private func packet4(length: Int, stated: Int? = nil, words: UInt8 = 5, version: UInt8 = 4) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: length)
    let total = stated ?? length
    let header: [UInt8] = [
        version << 4 | words, 0, UInt8(total >> 8), UInt8(total & 255), 0, 0, 0, 0, 64, 17, 0, 0,
        10, 0, 0, 1, 10, 0, 0, 2,
    ]
    for (index, byte) in header.enumerated() where index < length { bytes[index] = byte }
    return bytes
}

private func packet6(length: Int, payload: Int? = nil) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: length)
    let stated = payload ?? max(length - 40, 0)
    var header: [UInt8] = [0x60, 0, 0, 0, UInt8(stated >> 8), UInt8(stated & 255), 59, 64]
    header += [0xfd] + [UInt8](repeating: 0, count: 14) + [1]
    header += [0xfd] + [UInt8](repeating: 0, count: 14) + [2]
    for (index, byte) in header.enumerated() where index < length { bytes[index] = byte }
    return bytes
}

private func totalLength(_ bytes: [UInt8]) -> Int? {
    unsafe bytes.withUnsafeBytes { unsafe IPHeader.totalLength(of: $0) }
}

@Suite("Raw IP packets")
struct AllowedIPsPacketTests {
    private func lookups(_ bytes: [UInt8]) throws -> [Int32] {
        var table = AllowedIPs()
        for last in 1...2 as ClosedRange<UInt8> {
            let v4 = IPAddress.v4(0x0a00_0000 | UInt32(last))
            table.insert(try #require(IPPrefix(v4, length: 32)), peer: Int32(last))
            let v6 = IPAddress.v6(0xfd << 56, UInt64(last))
            table.insert(try #require(IPPrefix(v6, length: 128)), peer: Int32(last) + 10)
        }
        return unsafe bytes.withUnsafeBytes { unsafe [table.lookupSource(of: $0), table.lookupDestination(of: $0)] }
    }

    @Test("Source and destination are read from either family's header")
    func addresses() throws {
        try #expect(lookups(packet4(length: 20)) == [1, 2])
        try #expect(lookups(packet4(length: 1420)) == [1, 2])
        try #expect(lookups(packet6(length: 40)) == [11, 12])
        try #expect(lookups(packet6(length: 1280)) == [11, 12])
    }

    @Test("Short packets and other versions belong to no peer")
    func malformedAddresses() throws {
        for length in 0..<20 { try #expect(lookups(packet4(length: length)) == [-1, -1]) }
        for length in 0..<40 { try #expect(lookups(packet6(length: length)) == [-1, -1]) }
        for version in 0...15 as ClosedRange<UInt8> where version != 4 && version != 6 {
            try #expect(lookups(packet4(length: 60, version: version)) == [-1, -1])
        }
    }

    @Test("The stated length leaves padding out")
    func padding() {
        #expect(totalLength(packet4(length: 20)) == 20)
        #expect(totalLength(packet4(length: 32, stated: 21)) == 21)
        #expect(totalLength(packet4(length: 64, stated: 60, words: 15)) == 60)
        #expect(totalLength(packet6(length: 48, payload: 3)) == 43)
        #expect(totalLength(packet6(length: 40)) == 40)
        #expect(totalLength(packet4(length: 65_535)) == 65_535)
    }

    @Test("A header that lies about the length is refused")
    func lies() {
        #expect(totalLength([]) == nil)
        #expect(totalLength(packet4(length: 20, stated: 21)) == nil)
        #expect(totalLength(packet4(length: 40, stated: 19)) == nil)
        #expect(totalLength(packet4(length: 40, words: 4)) == nil)
        #expect(totalLength(packet4(length: 40, stated: 20, words: 6)) == nil)
        #expect(totalLength(packet4(length: 19)) == nil)
        #expect(totalLength(packet6(length: 40, payload: 1)) == nil)
        #expect(totalLength(packet6(length: 39)) == nil)
        #expect(totalLength(packet4(length: 40, version: 5)) == nil)
    }

    @Test("Random bytes never have a length beyond the buffer")
    func randomBytes() {
        var random = SeededGenerator(seed: 0x1f)
        for _ in 0..<5_000 {
            let bytes = random.bytes(random.int(in: 0...90))
            if let length = totalLength(bytes) { #expect((20...bytes.count).contains(length)) }
        }
    }
}
