// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses

/// What nft lists of a map of verdicts.
struct VerdictListing: Decodable {
    /// Of each address the chain that its packets go to; another verdict is an empty name.
    let entries: [IPAddress: String]

    /// - Parameter json: what `nft -j list map` writes.
    init(json: String) throws {
        self = try JSONDecoder().decode(VerdictListing.self, from: Data(json.utf8))
    }

    init(from decoder: any Decoder) throws {
        let list = try decoder.container(keyedBy: Key.self).decode([Item].self, forKey: .nftables)
        var entries: [IPAddress: String] = [:]
        for element in list.compactMap(\.map).flatMap({ $0.elem ?? [] }) {
            if let address = try? IPAddress(element.address) { entries[address] = element.chain }
        }
        self.entries = entries
    }

    private enum Key: String, CodingKey { case nftables, goto, target }

    private struct Item: Decodable { let map: Map? }
    private struct Map: Decodable { let elem: [Element]? }

    /// `["10.66.0.2", {"goto": {"target": "client"}}]`
    private struct Element: Decodable {
        let address: String
        let chain: String

        init(from decoder: any Decoder) throws {
            var pair = try decoder.unkeyedContainer()
            address = try pair.decode(String.self)
            let verdict = try pair.nestedContainer(keyedBy: Key.self)
            chain =
                verdict.contains(.goto)
                ? try verdict.nestedContainer(keyedBy: Key.self, forKey: .goto).decode(String.self, forKey: .target)
                : ""
        }
    }
}
