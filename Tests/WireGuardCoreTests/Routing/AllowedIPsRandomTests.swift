// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

/// The slow reference: every length in turn, longest first.
private struct ReferenceTable {
    var entries: [IPPrefix: Int32] = [:]

    func lookup(_ address: IPAddress, lengths: [Int]) -> Int32? {
        for length in lengths {
            if let prefix = IPPrefix(address, length: length), let peer = entries[prefix] { return peer }
        }
        return nil
    }

    /// The lengths in use, longest first.
    var lengths: [Int] { Set(entries.keys.map(\.length)).sorted(by: >) }
}

/// Random addresses that lie near each other often enough for prefixes to nest.
private struct AddressSource {
    var random: SeededGenerator
    let family: IPFamily
    let clusters: [IPAddress]

    init(seed: UInt64, family: IPFamily, clusters: Int) {
        var random = SeededGenerator(seed: seed)
        self.family = family
        self.clusters = (0..<clusters).map { _ in
            family == .v4
                ? IPAddress.v4(UInt32(truncatingIfNeeded: random.next()))
                : IPAddress.v6(random.next(), random.next())
        }
        self.random = random
    }

    mutating func address() -> IPAddress {
        let base = clusters[random.int(in: 0..<clusters.count)]
        // Keeps a random number of leading bits of a cluster's address and draws the rest.
        let kept = random.int(in: 0...family.bitWidth)
        switch family {
        case .v4:
            let rest = UInt32(truncatingIfNeeded: random.next()) & (UInt32.max >> UInt32(kept))
            return IPAddress.v4(UInt32(truncatingIfNeeded: base.low) ^ rest)
        case .v6:
            let rest = (UInt128(random.next()) << 64 | UInt128(random.next())) & (UInt128.max >> UInt128(kept))
            return IPAddress.v6(
                base.high ^ UInt64(truncatingIfNeeded: rest >> 64), base.low ^ UInt64(truncatingIfNeeded: rest))
        }
    }

    mutating func prefix(lengths: [Int]) throws -> IPPrefix {
        try #require(IPPrefix(address(), length: lengths[random.int(in: 0..<lengths.count)]))
    }
}

private let lengthsV4 = [0, 3, 8, 9, 12, 16, 19, 20, 24, 25, 28, 31, 32]
private let lengthsV6 = [0, 3, 16, 29, 32, 48, 52, 56, 63, 64, 65, 80, 96, 127, 128]

@Suite("Allowed IPs against a slow reference")
struct AllowedIPsRandomTests {
    @Test(
        "With 100 peers and 250 networks, 10,000 lookups agree with a linear search", arguments: IPFamily.allCases,
        [1, 3, 40])
    func fixedTable(_ family: IPFamily, clusters: Int) throws {
        var source = AddressSource(seed: 0xa110 + UInt64(clusters), family: family, clusters: clusters)
        var table = AllowedIPs()
        var reference = ReferenceTable()
        for _ in 0..<250 {
            let prefix = try source.prefix(lengths: family == .v4 ? lengthsV4 : lengthsV6)
            let peer = Int32(source.random.int(in: 0..<100))
            let previous = table.insert(prefix, peer: peer)
            let expected = reference.entries.updateValue(peer, forKey: prefix)
            #expect(previous == (expected == peer ? nil : expected))
        }
        #expect(table.count == reference.entries.count)
        let lengths = reference.lengths
        var differences = 0
        for _ in 0..<10_000 {
            let address = source.address()
            if table.lookup(address) != reference.lookup(address, lengths: lengths) { differences += 1 }
        }
        #expect(differences == 0)
    }

    @Test(
        "Insertions, removals and whole peers in any order agree with a plain list", arguments: IPFamily.allCases,
        [0xc0, 0xc1, 0xc2])
    func churn(_ family: IPFamily, seed: UInt64) throws {
        var source = AddressSource(seed: seed, family: family, clusters: 5)
        // Some tables grow in steps although they are small.
        var table = AllowedIPs(mostAtOnce: seed % 2 == 0 ? 0 : 1_024)
        var reference = ReferenceTable()
        let choices = family == .v4 ? lengthsV4 : lengthsV6
        let peers = 12
        for round in 0..<12 {
            // Grows in most rounds, shrinks to almost nothing in every fourth.
            for _ in 0..<150 {
                let peer = Int32(source.random.int(in: 0..<peers))
                let grow = round % 4 == 3 ? 0.05 : 0.8
                if source.random.chance(grow) {
                    let prefix = try source.prefix(lengths: choices)
                    table.insert(prefix, peer: peer)
                    reference.entries[prefix] = peer
                } else if let victim = reference.entries.keys.min(by: { $0.address.low &* 77 < $1.address.low &* 77 }) {
                    let removed = table.remove(victim, peer: peer)
                    #expect(removed == (reference.entries[victim] == peer))
                    if let owner = reference.entries.removeValue(forKey: victim), !removed {
                        #expect(table.remove(victim, peer: owner) == true)
                    }
                }
            }
            if round % 3 == 2 {
                table.removeAll(of: 4)
                reference.entries = reference.entries.filter { $0.value != 4 }
                #expect(table.count(of: 4) == 0)
            }
            try compare(table, reference, peers: peers, source: &source)
        }
        for peer in 0..<peers { table.removeAll(of: Int32(peer)) }
        #expect(table.count == 0)
        #expect(table.nodeCount == 0)
        #expect(table.byteCount == AllowedIPs().byteCount)
    }

    private func compare(
        _ table: borrowing AllowedIPs, _ reference: ReferenceTable, peers: Int, source: inout AddressSource
    ) throws {
        var listed: [IPPrefix: Int32] = [:]
        for peer in 0..<Int32(peers) {
            var count = 0
            table.forEach(of: peer) { prefix in
                listed[prefix] = peer
                count += 1
            }
            #expect(table.count(of: peer) == count)
        }
        #expect(listed == reference.entries)
        #expect(table.count == reference.entries.count)
        #expect(table.nodeCount <= max(0, 2 * table.count - 1))
        let lengths = reference.lengths
        var differences = 0
        for address in reference.entries.keys.map(\.address) + (0..<300).map({ _ in source.address() })
        where table.lookup(address) != reference.lookup(address, lengths: lengths) {
            differences += 1
        }
        #expect(differences == 0)
    }

    /// In a family of eight bits every address can be tried after every change.
    @Test("Every address of a tiny family after every change", arguments: [0xe0, 0xe1, 0xe2, 0xe3] as [UInt64])
    func exhaustive(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        // Some tries grow in steps although they are small.
        var trie = AllowedIPsTrie<UInt8>(mostAtOnce: seed % 2 == 0 ? 0 : 1_024)
        // The peer of each prefix, by length and bits.
        var entries: [Int: Int32] = [:]
        func key(_ bits: UInt8, _ length: Int) -> Int { length << 8 | Int(bits) }
        var differences = 0
        for step in 0..<1_500 {
            let length = random.int(in: 0...8)
            let bits = AllowedIPsTrie<UInt8>.masked(UInt8(truncatingIfNeeded: random.next()), length)
            let peer = Int32(random.int(in: 0..<4))
            if random.chance(step % 500 < 250 ? 0.85 : 0.2) {
                _ = trie.insert(bits, length: length, peer: peer)
                entries[key(bits, length)] = peer
            } else {
                let removed = trie.remove(bits, length: length, peer: peer)
                if removed != (entries[key(bits, length)] == peer) { differences += 1 }
                if removed { entries[key(bits, length)] = nil }
            }
            guard step % 5 == 0 else { continue }
            for address in UInt8.min...UInt8.max {
                var expected: Int32 = -1
                for length in 0...8 {
                    expected = entries[key(AllowedIPsTrie<UInt8>.masked(address, length), length)] ?? expected
                }
                if trie.lookup(address) != expected { differences += 1 }
            }
        }
        #expect(differences == 0)
        #expect(trie.count == entries.count)
        for peer in 0..<4 as Range<Int32> { trie.removeAll(of: peer) }
        #expect(trie.nodeCount == 0)
    }

    @Test("A default route over 20,000 hosts is added and removed")
    func coversManySlots() throws {
        var table = AllowedIPs()
        for host in 0..<20_000 as Range<UInt32> {
            table.insert(try #require(IPPrefix(.v4(0x0a00_0000 | host << 3), length: 32)), peer: 1)
        }
        let everything = try #require(IPPrefix(.v4(0), length: 0))
        let ten = try #require(IPPrefix(.v4(0x0a00_0000), length: 8))
        #expect(table.lookup(v4: 0x0a00_0001) == -1)
        table.insert(ten, peer: 3)
        table.insert(everything, peer: 2)
        #expect(table.lookup(v4: 0x0a00_0001) == 3)
        #expect(table.lookup(v4: 0x0b00_0001) == 2)
        table.remove(ten, peer: 3)
        #expect(table.lookup(v4: 0x0a00_0001) == 2)
        #expect(table.lookup(v4: 0x0a00_0008) == 1)
        table.remove(everything, peer: 2)
        #expect(table.lookup(v4: 0x0a00_0001) == -1)
        table.removeAll(of: 1)
        #expect(table.nodeCount == 0)
    }
}
