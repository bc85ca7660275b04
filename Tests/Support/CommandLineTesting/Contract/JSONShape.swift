// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
package import TunnelSystem

/// The members of the JSON that a command prints, derived from samples.
package struct JSONShape {
    private var kinds: [String: Set<String>] = [:]
    /// The number of objects at a path, and of those with a member, by the path of the member.
    private var objects: [String: Int] = [:]
    private var present: [String: Int] = [:]
    /// The paths of objects whose names or contents are data, not members.
    private let open: Set<String>

    /// - Parameter open: the paths of objects whose names or contents are data, not members.
    package init(open: Set<String> = []) { self.open = open }

    /// Adds a document as a command prints it.
    package mutating func add(text: String) throws {
        visit(try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8)), "")
    }

    /// Adds a document.
    package mutating func add(_ document: JSON) throws { try add(text: document.line) }

    private mutating func visit(_ value: JSONValue, _ path: String) {
        switch value {
        case .null: kinds[path, default: []].insert("null")
        case .bool: kinds[path, default: []].insert("boolean")
        case .integer, .number: kinds[path, default: []].insert("number")
        case .string: kinds[path, default: []].insert("string")
        case .array(let values):
            kinds[path, default: []].insert("list")
            for value in values { visit(value, path + "[]") }
        case .object(let members):
            kinds[path, default: []].insert("object")
            guard !open.contains(path) else { return }
            objects[path, default: 0] += 1
            for (name, value) in members {
                let member = path.isEmpty ? name : "\(path).\(name)"
                present[member, default: 0] += 1
                visit(value, member)
            }
        }
    }

    /// The facts of the members.
    /// - Parameter command: the command as it is typed, with `--json`.
    package func facts(of command: String) -> [ContractFact] {
        present.keys.sorted().map { path in
            var kinds = kinds[path] ?? []
            if kinds.remove("list") != nil, let items = self.kinds[path + "[]"] {
                kinds.insert("list of " + items.sorted().joined(separator: " or ") + "s")
            }
            let isNull = kinds.remove("null") != nil
            let form = (kinds.sorted() + (isNull ? ["null"] : [])).joined(separator: " or ")
            let isSometimes = present[path, default: 0] < objects[Self.parent(path), default: 0]
            return ContractFact("\(command) \(path)", form + (isSometimes ? ", not always" : ""))
        }
    }

    /// The paths at which no sample has a value or an item, so that their form is not known.
    package var unfilled: [String] {
        kinds.filter { path, kinds in
            kinds == ["null"] || (kinds.contains("list") && self.kinds[path + "[]"] == nil)
        }.keys.sorted()
    }

    private static func parent(_ path: String) -> String {
        path.lastIndex(of: ".").map { String(path[..<$0]) } ?? ""
    }
}
