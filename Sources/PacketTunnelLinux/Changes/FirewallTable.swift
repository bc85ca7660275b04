// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table of nftables: its name, and the script that makes it.
package struct FirewallTable: Hashable, Sendable {
    /// The language of the table's body.
    package enum Form: Hashable, Sendable {
        /// The statements inside the table, as nft(8) has them.
        case statements
        /// JSON commands separated by commas (libnftables-json(5)), without those that create the table. The elements
        /// of sets and maps, and the chains of ``FirewallTable/ownedChains``, can change while the table stays.
        case json
    }

    /// The name prefix of chains that are added and removed while the table stays.
    package static let ownedChains = "rules-"

    /// The table's name in the family `inet`.
    package var name: String
    /// The contents of the table.
    package var body: String
    package var form: Form
    /// The chains, if these are all contents of the table: it has no sets.
    private(set) var chains: [FirewallChain]?

    package init(name: String, body: String, form: Form = .statements) {
        self.name = name
        self.body = body
        self.form = form
    }

    init(name: String, chains: [FirewallChain]) {
        self.init(name: name, body: chains.map(\.text).joined())
        self.chains = chains
    }

    /// Whether a listing has as many rules and hooks as the table. nft prints each of them on a separate line.
    func isWhole(in listing: String) -> Bool {
        let signs = [
            "accept", "drop", "admin-prohibited", "return", "jump ", "goto ", "vmap ", "masquerade", "maxseg",
            "tcp reset", "mark set",
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

    /// The nft script, which replaces a table of that name in one transaction.
    package var script: String { script(after: ["add", "delete"]) }

    /// The nft script for a table that does not exist. It fails if the table exists.
    ///
    /// A transaction that deletes a table, even an empty one, makes nft wait until no processor uses the table.
    var firstScript: String { script(after: ["create"]) }

    /// - Parameter verbs: The commands for the table before it is added with its contents.
    private func script(after verbs: [String]) -> String {
        switch form {
        case .statements:
            verbs.map { "\($0) table inet \(name)\n" }.joined() + "table inet \(name) {\n\(body)}\n"
        case .json:
            #"{"nftables":["# + (verbs + ["add"]).map(command).joined(separator: ",") + (body.isEmpty ? "" : ",") + body
                + "]}"
        }
    }

    /// The options for nft to read the script.
    package var options: [String] { form == .json ? ["-j", "-f", "-"] : ["-f", "-"] }

    private func command(_ verb: String) -> String {
        #"{"\#(verb)":{"table":{"family":"inet","name":"\#(name)"}}}"#
    }
}

/// Only the name is encoded, because undoing a table needs nothing else.
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
