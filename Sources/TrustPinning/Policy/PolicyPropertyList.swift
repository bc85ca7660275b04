// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A value of a property list, converted to the JSON from which policies are read. A date becomes its text. Fractions
/// and data become a number that is not an integer, which no field of a policy accepts.
private struct PropertyListValue: Decodable {
    let json: JSON

    init(from decoder: any Decoder) throws {
        guard decoder.codingPath.count <= JSON.policyDepth else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "too deep"))
        }
        if let container = try? decoder.container(keyedBy: PropertyListName.self) {
            var members: [String: JSON] = [:]
            for name in container.allKeys {
                members[name.stringValue] = try container.decode(PropertyListValue.self, forKey: name).json
            }
            json = .object(members)
        } else if var container = try? decoder.unkeyedContainer() {
            var elements: [JSON] = []
            while !container.isAtEnd { elements.append(try container.decode(PropertyListValue.self).json) }
            json = .array(elements)
        } else {
            // Keep this order, because the decoder accepts some values as several types.
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(Bool.self) {
                json = .bool(value)
            } else if let value = try? container.decode(Int64.self) {
                json = .integer(value)
            } else if let value = try? container.decode(Date.self) {
                json = .string(Timestamp.text(value))
            } else if let value = try? container.decode(String.self) {
                json = .string(value)
            } else {
                json = .number("0.5")
            }
        }
    }
}

private struct PropertyListName: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }

    init?(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

/// The members of a property list. Each is decoded separately, because an Info.plist also has members, at any depth,
/// that are not policies.
struct PolicyMembers: Decodable {
    private(set) var values: [String: JSON] = [:]
    /// The names of members that are nested too deeply.
    private(set) var unreadable: Set<String> = []

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: PropertyListName.self)
        for name in container.allKeys {
            if let value = try? container.decode(PropertyListValue.self, forKey: name) {
                values[name.stringValue] = value.json
            } else {
                unreadable.insert(name.stringValue)
            }
        }
    }
}
