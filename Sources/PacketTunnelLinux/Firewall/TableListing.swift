// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The parsed listing of a table, which may have thousands of chains.
package struct TableListing: Hashable, Sendable {
    /// The listing without the chains that are added and removed while the table stays (``FirewallTable/ownedChains``).
    package private(set) var fixed: [UInt8] = []
    /// The lines of each of those chains, by chain name.
    package private(set) var owned: [String: [UInt8]] = [:]

    /// - Parameter text: The output of `nft list table`.
    package init(_ text: String) {
        var name = ""
        var lines: [UInt8] = []
        for line in Array(text.utf8).split(separator: UInt8(ascii: "\n")) {
            if line.starts(with: Self.opening) {
                let rest = line.dropFirst(Self.opening.count - FirewallTable.ownedChains.utf8.count)
                name = String(decoding: rest.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
            }
            guard !name.isEmpty else {
                fixed += line
                fixed.append(UInt8(ascii: "\n"))
                continue
            }
            lines += line
            lines.append(UInt8(ascii: "\n"))
            if line.elementsEqual(Self.closing) {
                owned[name] = lines
                (name, lines) = ("", [])
            }
        }
    }

    private static let opening = Array("\tchain \(FirewallTable.ownedChains)".utf8)
    private static let closing = Array("\t}".utf8)

    /// Returns the number of rules of a chain. nft prints each rule on one line, between the first and the last line of
    /// the chain.
    package func ruleCount(_ chain: String) -> Int {
        max((owned[chain]?.count { $0 == UInt8(ascii: "\n") } ?? 0) - 2, 0)
    }
}
