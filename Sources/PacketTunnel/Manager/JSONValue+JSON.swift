// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

extension JSONValue {
    /// The value without the order of its members.
    package init(_ json: JSON) {
        switch json {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .integer(let value): self = .integer(value)
        // The reader accepts only numbers that a `Double` can hold.
        case .number(let text): self = .number(Double(text) ?? 0)
        case .string(let text): self = .string(text)
        case .array(let values): self = .array(values.map { JSONValue($0) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.name, JSONValue($0.value)) }) { first, _ in first })
        }
    }

    /// The value with its members in alphabetical order.
    package var ordered: JSON {
        switch self {
        case .null: .null
        case .bool(let value): .bool(value)
        case .integer(let value): .integer(value)
        case .number(let value): .number("\(value)")
        case .string(let text): .string(text)
        case .array(let values): .array(values.map(\.ordered))
        case .object(let members):
            .object(of: members.sorted { $0.key < $1.key }.map { ($0.key, $0.value.ordered) })
        }
    }
}
