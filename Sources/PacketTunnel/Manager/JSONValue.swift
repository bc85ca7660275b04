// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Any JSON, so that a profile can hold the configuration of a provider that this process does not know.
///
/// Apps switch over its cases. Two objects are equal if their members are, in any order. The package's own reader and
/// messages use another type, which keeps the order of members and the digits of numbers.
public enum JSONValue: Codable, Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number without fraction.
    case integer(Int64)
    /// A number with a fraction, or out of the range of `Int64`.
    case number(Double)
    /// A text.
    case string(String)
    /// A list.
    case array([JSONValue])
    /// Names and values.
    case object([String: JSONValue])

    /// Decodes any JSON.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    /// Encodes the JSON.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }

    /// Encodes `value`.
    /// - Throws: `.configurationInvalid`.
    public init(encoding value: some Encodable) throws(TunnelError) {
        do {
            self = try JSONDecoder().decode(JSONValue.self, from: try JSONEncoder().encode(value))
        } catch {
            throw TunnelError(.configurationInvalid, "the configuration does not encode: \(error)")
        }
    }

    /// The JSON text.
    /// - Throws: `.configurationInvalid` for a number that JSON does not have.
    public func text() throws(TunnelError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(self))
        } catch {
            throw TunnelError(.configurationInvalid, "the configuration does not encode: \(error)")
        }
    }

    /// Decodes the value as a type.
    /// - Throws: `.configurationInvalid`.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws(TunnelError) -> Value {
        let bytes = try text()
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch let error as TunnelError {
            throw error
        } catch {
            throw TunnelError(.configurationInvalid, "the configuration does not decode: \(error)")
        }
    }
}

extension JSONValue {
    /// Creates a value. The order of members is lost.
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
