// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel

/// An interface that this process made, by its name and, since names are used again, its number.
package struct InterfaceReference: Hashable, Sendable, Codable {
    package var name: String
    package var index: UInt32

    package init(name: String, index: UInt32) {
        self.name = name
        self.index = index
    }
}

/// What makes a kernel setting another: a file under /proc/sys.
package struct SettingChange: Hashable, Sendable, Codable {
    package var path: String
    package var value: String
    /// What it was.
    package var before: String

    package init(path: String, value: String, before: String) {
        self.path = path
        self.value = value
        self.before = before
    }

    /// - Throws: for a file that is no kernel setting. Whatever a journal says, undoing it writes over no other.
    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        path = try values.decode(String.self, forKey: .path)
        value = try values.decode(String.self, forKey: .value)
        before = try values.decode(String.self, forKey: .before)
        guard Self.isSetting(path) else {
            throw DecodingError.dataCorruptedError(
                forKey: .path, in: values, debugDescription: "this is no file under /proc/sys")
        }
    }

    private enum CodingKeys: String, CodingKey { case path, value, before }

    static func isSetting(_ path: String) -> Bool {
        path.hasPrefix("/proc/sys/")
            && !path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().contains { name in
                name.isEmpty || name == "." || name == ".."
            }
    }
}

/// What is done to the host's network in one step.
package enum NetworkOperation: Hashable, Sendable {
    /// Gives the interface an address.
    case addAddress(InterfaceAddress, InterfaceReference)
    /// Takes it away. Nothing where it, or the interface, is gone.
    case removeAddress(InterfaceAddress, InterfaceReference)
    /// Brings the interface up with this MTU. It goes down with the interface.
    case bringUp(InterfaceReference, mtu: Int)
    /// Makes a route in place of one with the same destinations, table and metric.
    case addRoute(Route)
    /// Deletes the route. Nothing where it is gone.
    case removeRoute(Route)
    /// Makes the foreign route again that was there in place of ours. Nothing where ours is gone and another there, or
    /// what the foreign route led to is gone.
    case restoreRoute(ForeignRoute, inPlaceOf: Route)
    /// Makes a policy rule.
    case addRule(PolicyRule)
    /// Deletes it. Nothing where it is gone.
    case removeRule(PolicyRule)
    /// Writes a kernel setting.
    case writeSetting(path: String, value: String)
    /// Writes what it was before. Nothing where it is no longer what this program wrote.
    case restoreSetting(path: String, value: String, ifStill: String)
    /// Puts a table of nftables in place of the one of that name, or makes it.
    case loadTable(FirewallTable)
    /// Deletes the table. Nothing where it is gone.
    case removeTable(name: String)
    /// Tells the manager of name servers of the tunnel's.
    case setResolver(ResolverPlan, ResolverRecord)
    /// Makes it forget them.
    case clearResolver(ResolverRecord)
    /// Nothing: the interface is made by who holds its descriptor, and goes with it.
    case none
}

/// A table of nftables: its name, and the script that makes it.
package struct FirewallTable: Hashable, Sendable, Codable {
    /// How the table is written down.
    package enum Form: Hashable, Sendable, Codable {
        /// The statements inside the table, as nft(8) has them.
        case statements
        /// Commands in JSON with commas between them, as libnftables-json(5) has them, without those that make the table. What
        /// is in sets and maps, and what chains there are of ``FirewallTable/ownedChains``, is their owner's to change, and no
        /// change of the table.
        case json
    }

    /// What the names of chains begin with that come and go while the table stays.
    package static let ownedChains = "rules-"

    /// The table's name in the family `inet`.
    package var name: String
    /// What is in the table.
    package var body: String
    package var form: Form

    package init(name: String, body: String, form: Form = .statements) {
        self.name = name
        self.body = body
        self.form = form
    }

    /// Whether a listing has as many rules and hooks as the table: nft writes each of them on a line of its own.
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

    /// What nft is given: the table in place of one of that name, all at once.
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
