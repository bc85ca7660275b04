// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension JSON {
    /// An object with its members in alphabetical order.
    package static func object(_ members: [String: JSON]) -> JSON {
        .object(of: members.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    /// The value of a member, or `nil` if this is not an object or has no such member.
    package subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    /// The string, or `nil` if this is another kind of value.
    package var string: String? { if case .string(let text) = self { text } else { nil } }

    /// The truth value, or `nil` if this is another kind of value.
    package var flag: Bool? { if case .bool(let flag) = self { flag } else { nil } }

    /// The elements of an array, or `nil` if this is another kind of value.
    package var list: [JSON]? { if case .array(let items) = self { items } else { nil } }
}
