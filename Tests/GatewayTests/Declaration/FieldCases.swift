// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import TunnelSystem

@testable import Gateway

/// Values at, below and above each bound of a schema, made from the schema.
struct FieldCase: Sendable {
    let value: JSON
    let isAccepted: Bool
    let name: String

    private init(_ value: JSON, _ isAccepted: Bool, _ name: String) {
        self.value = value
        self.isAccepted = isAccepted
        self.name = name
    }

    /// The cases of a schema, including values of other types.
    static func all(_ schema: JSONSchema) -> [FieldCase] {
        let isNullable = if case .optional = schema { true } else { false }
        return bounds(schema) + others(schema) + [FieldCase(.null, isNullable, "null")]
    }

    private static func bounds(_ schema: JSONSchema) -> [FieldCase] {
        switch schema {
        case .text(_, _, let length?, _):
            let lengths = around(length).map {
                FieldCase(.string(String(repeating: "a", count: $0)), length.contains($0), "\($0) characters")
            }
            let controls = ["\n", "\u{0}", "\u{7f}", "\u{85}", "\u{2028}", "\u{202e}"].map {
                FieldCase(.string("a\($0)b"), false, "a control character")
            }
            return lengths + controls
        case .text:
            return [
                FieldCase(sample(schema, 0), true, "a sample"), FieldCase("-", false, "another text"),
                FieldCase("", false, "no text"),
            ]
        case .choice(let names):
            return names.map { FieldCase(.string($0), true, $0) } + [FieldCase("-", false, "another name")]
        case .integer(let range?, _):
            let values: [Int64] = [range.lowerBound &- 1, range.lowerBound, range.upperBound, range.upperBound &+ 1]
            let numbers = values.map { value -> FieldCase in
                FieldCase(JSON.integer(Int(value)), range.contains(value), "\(value)")
            }
            return numbers + [FieldCase(.number("0.5"), false, "a fraction")]
        case .list(let items, let count?):
            let numbers = around(count).map { number -> FieldCase in
                let elements: [JSON] = (0..<number).map { sample(items, $0) }
                return FieldCase(.array(elements), count.contains(number), "\(number) elements")
            }
            let refused = bounds(items).filter { !$0.isAccepted }
            return numbers + refused.map { FieldCase(.array([$0.value]), false, "an element with \($0.name)") }
        case .flag: return [FieldCase(true, true, "true"), FieldCase(false, true, "false")]
        case .optional(let inner): return bounds(inner)
        default: return []
        }
    }

    /// The lengths at, below and above both bounds, without negative ones.
    private static func around(_ range: ClosedRange<Int>) -> [Int] {
        [range.lowerBound - 1, range.lowerBound, range.upperBound, range.upperBound + 1].filter { $0 >= 0 }
    }

    private static func others(_ schema: JSONSchema) -> [FieldCase] {
        var others: [(JSON, String)] = [
            ("a", "a text"), (.integer(1), "a number"), (true, "a truth value"), (.array([]), "a list"),
            (.object([]), "an object"),
        ]
        let inner = if case .optional(let inner) = schema { inner } else { schema }
        switch inner {
        case .text, .choice: others.remove(at: 0)
        case .integer: others.remove(at: 1)
        case .flag: others.remove(at: 2)
        case .list: others.remove(at: 3)
        default: break
        }
        return others.map { FieldCase($0, false, "instead of another kind: \($1)") }
    }

    /// A value that a schema allows. The elements of a list differ by their index.
    static func sample(_ schema: JSONSchema, _ index: Int) -> JSON {
        switch schema {
        case .id: .string(String(repeating: "a", count: 25) + "q")
        case .time: "2099-01-31T12:00:00Z"
        case .key: "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
        // An IPv4 address and an IPv6 address.
        case .address: index == 0 ? "10.66.1.2" : .string("fd00:66::1:\(index)")
        case .prefix: .string("10.\(100 + index / 250).\(index % 250).0/24")
        case .ports: .string("\(1000 + index)")
        case .host: "vpn.example.com"
        case .endpoint: "vpn.example.com:51820"
        case .interfaceAddress: "10.66.0.1/16"
        case .service: "tcp/443"
        case .text(_, _, nil, _): .string(index == 0 ? "a" : "a\(index)")
        case .text(_, _, let length?, _): .string(String(repeating: "a", count: max(length.lowerBound, 1)))
        case .choice(let names): .string(names.first ?? "")
        case .integer(let range, _): JSON.integer(Int(range?.lowerBound ?? 0))
        case .flag: true
        case .list(let items, let count): .array((0..<max(count?.lowerBound ?? 0, 1)).map { sample(items, $0) })
        case .optional(let inner): sample(inner, index)
        default: .null
        }
    }
}

extension CompleteMessage {
    /// The smallest object that a request must be.
    func minimal() -> [String: JSON] {
        Dictionary(
            schemaMembers(.create).filter(\.isRequired).map { ($0.name, FieldCase.sample($0.schema, 0)) }
        ) { $1 }
    }
}

extension Message {
    /// The smallest object that a request of this form must be.
    func minimal(_ form: MessageForm) -> [String: JSON] {
        Dictionary(
            fields.filter { $0.isRequired(in: form) && $0.isIn(form) }.map { ($0.name, FieldCase.sample($0.schema, 0)) }
        ) { $1 }
    }
}
