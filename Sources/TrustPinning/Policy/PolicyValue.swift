// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// What JSON and property lists have in common.
package enum PolicyValue: Hashable, Sendable {
    case null
    case boolean(Bool)
    /// A whole number. No policy has others.
    case integer(Int64)
    case text(String)
    /// Of property lists only.
    case date(Date)
    case array([PolicyValue])
    case object([String: PolicyValue])
    /// What property lists have and policies do not: fractions and data.
    case other

    var kind: String {
        switch self {
        case .null: "null"
        case .boolean: "a boolean"
        case .integer: "a number"
        case .text: "text"
        case .date: "a date"
        case .array: "a list"
        case .object: "a dictionary"
        case .other: "a fraction or data"
        }
    }
}

/// Property lists are decoded with the type that the reader finds first.
extension PolicyValue: Decodable {
    fileprivate struct Name: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }

        init?(stringValue: String) { self.stringValue = stringValue }

        init?(intValue: Int) { nil }
    }

    package init(from decoder: any Decoder) throws {
        guard decoder.codingPath.count <= JSONReader.maximumDepth else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "too deep"))
        }
        if let container = try? decoder.container(keyedBy: Name.self) {
            var members: [String: PolicyValue] = [:]
            for name in container.allKeys {
                members[name.stringValue] = try container.decode(PolicyValue.self, forKey: name)
            }
            self = .object(members)
        } else if var container = try? decoder.unkeyedContainer() {
            var elements: [PolicyValue] = []
            while !container.isAtEnd { elements.append(try container.decode(PolicyValue.self)) }
            self = .array(elements)
        } else {
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(Bool.self) {
                self = .boolean(value)
            } else if let value = try? container.decode(Int64.self) {
                self = .integer(value)
            } else if let value = try? container.decode(Date.self) {
                self = .date(value)
            } else if let value = try? container.decode(String.self) {
                self = .text(value)
            } else {
                self = .other
            }
        }
    }
}

/// The members of a property list by themselves: what an Info.plist holds beside policies is nobody's business here,
/// however deep it is.
struct PolicyMembers: Decodable {
    private(set) var values: [String: PolicyValue] = [:]
    /// Those that no policy could be made of.
    private(set) var unreadable: Set<String> = []

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: PolicyValue.Name.self)
        for name in container.allKeys {
            if let value = try? container.decode(PolicyValue.self, forKey: name) {
                values[name.stringValue] = value
            } else {
                unreadable.insert(name.stringValue)
            }
        }
    }
}
