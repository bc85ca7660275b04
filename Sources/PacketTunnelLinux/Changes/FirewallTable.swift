// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table of nftables: its name, and the script that makes it.
package struct FirewallTable: Hashable, Sendable {
    /// The language of the table's body.
    package enum Form: Hashable, Sendable {
        /// The statements inside the table, as nft(8) has them.
        case statements
        /// Commands in JSON with commas between them, as libnftables-json(5) has them, without those that make the table. The
        /// elements of sets and maps, and the chains of ``FirewallTable/ownedChains``, can change without a change of the table.
        case json
    }

    /// The prefix of the names of chains that are added and removed while the table stays.
    package static let ownedChains = "rules-"

    /// The table's name in the family `inet`.
    package var name: String
    /// The contents of the table.
    package var body: String
    package var form: Form

    package init(name: String, body: String, form: Form = .statements) {
        self.name = name
        self.body = body
        self.form = form
    }

    /// Whether a listing has as many rules and hooks as the table: nft writes each of them on its own line.
    func isWhole(in listing: String) -> Bool {
        let signs = [
            "accept", "drop", "admin-prohibited", "return", "jump ", "goto ", "vmap ", "masquerade", "maxseg",
            "tcp reset",
        ]
        func count(_ text: String) -> Int {
            text.split(separator: "\n").count { line in signs.contains { line.contains($0) } }
        }
        let wanted =
            switch form {
            case .statements: count(body)
            case .json: ["\"rule\":", "\"policy\":"].map { body.split(separator: $0).count - 1 }.reduce(0, +)
            }
        return !listing.isEmpty && count(listing) >= wanted
    }

    /// The script for nft, which replaces a table of that name in one transaction.
    package var script: String {
        switch form {
        case .statements: "add table inet \(name)\ndelete table inet \(name)\ntable inet \(name) {\n\(body)}\n"
        case .json:
            #"{"nftables":["# + ["add", "delete", "add"].map(command).joined(separator: ",")
                + (body.isEmpty ? "" : ",") + body + "]}"
        }
    }

    /// The options that nft reads the script with.
    package var options: [String] { form == .json ? ["-j", "-f", "-"] : ["-f", "-"] }

    private func command(_ verb: String) -> String {
        #"{"\#(verb)":{"table":{"family":"inet","name":"\#(name)"}}}"#
    }
}

/// Undoing a table takes its name only.
extension FirewallTable: Codable {
    private enum CodingKeys: String, CodingKey { case name }

    package init(from decoder: any Decoder) throws {
        self.init(name: try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .name), body: "")
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
    }
}
