// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// The form of a JSON value: the part of JSON Schema 2020-12 that the API needs.
package indirect enum JSONSchema: Equatable, Sendable {
    case text(pattern: String? = nil, format: String? = nil, length: ClosedRange<Int>? = nil, note: String = "")
    case choice([String])
    case integer(ClosedRange<Int64>? = nil, note: String = "")
    case flag
    case list(of: JSONSchema, count: ClosedRange<Int>? = nil)
    case object([Member], isClosed: Bool = false)
    /// An object with arbitrary names, whose values are texts.
    case texts
    case optional(JSONSchema)
    /// A schema that the document defines once, under this name.
    case named(String)

    package struct Member: Equatable, Sendable {
        package var name: String
        package var schema: JSONSchema
        package var isRequired: Bool
        package var note: String

        package init(_ name: String, _ schema: JSONSchema, isRequired: Bool = true, note: String = "") {
            (self.name, self.schema, self.isRequired, self.note) = (name, schema, isRequired, note)
        }
    }

    /// The schema as JSON.
    package var json: JSON { .object(of: members) }

    private var members: [(String, JSON)] {
        switch self {
        case .text(let pattern, let format, let length, let note):
            return [("type", "string")] + Self.some("pattern", pattern) + Self.some("format", format)
                + (length.map { [("minLength", .integer($0.lowerBound)), ("maxLength", .integer($0.upperBound))] } ?? [])
                + (note.isEmpty ? [] : [("description", .string(note))])
        case .choice(let texts):
            return [("type", "string"), ("enum", .array(texts.map { .string($0) }))]
        case .integer(let range, let note):
            return [("type", "integer")]
                + (range.map { [("minimum", .integer($0.lowerBound)), ("maximum", .integer($0.upperBound))] } ?? [])
                + (note.isEmpty ? [] : [("description", .string(note))])
        case .flag: return [("type", "boolean")]
        case .list(let schema, let count):
            return [("type", "array"), ("items", schema.json)]
                + (count.map { [("minItems", .integer($0.lowerBound)), ("maxItems", .integer($0.upperBound))] } ?? [])
        case .object(let members, let isClosed):
            let properties = members.map { member -> (String, JSON) in
                var fields = member.schema.members
                if !member.note.isEmpty {
                    // Replace the note of the type by the note of the member: an object must not have two members with
                    // the same name.
                    fields.removeAll { $0.0 == "description" }
                    fields.append(("description", .string(member.note)))
                }
                return (member.name, .object(of: fields))
            }
            let required = members.filter(\.isRequired).map { JSON.string($0.name) }
            return [("type", "object"), ("properties", .object(of: properties))]
                + (required.isEmpty ? [] : [("required", .array(required))])
                + (isClosed ? [("additionalProperties", false)] : [])
        case .texts: return [("type", "object"), ("additionalProperties", ["type": "string"])]
        case .optional(let schema): return [("anyOf", .array([schema.json, ["type": "null"]]))]
        case .named(let name): return [("$ref", .string("#/components/schemas/\(name)"))]
        }
    }

    private static func some(_ name: String, _ text: String?) -> [(String, JSON)] {
        text.map { [(name, .string($0))] } ?? []
    }
}

extension JSONSchema {
    // A line excludes control characters and characters that change the direction of text.
    private static let line = #"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]*$"#

    package static let id = JSONSchema.text(pattern: "^[a-z2-7]{25}[aeimquy4]$", note: "A random ID")
    package static let time = JSONSchema.text(
        pattern: "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$",
        note: "A time in UTC")
    /// 32 bytes in Base64, with padding.
    package static let key = JSONSchema.text(
        pattern: "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$", note: "32 bytes in Base64")
    package static let address = JSONSchema.text(note: "An IPv4 or IPv6 address")
    package static let prefix = JSONSchema.text(note: "A network, such as 192.0.2.0/24")
    package static let endpoint = JSONSchema.text(note: "host:port")
    package static let count = JSONSchema.integer(0...Int64.max)

    /// A port or a range of ports.
    package static let ports = JSONSchema.text(note: "A port or a range of ports, such as 443 or 8000-8100")

    package static func line(_ length: ClosedRange<Int>) -> JSONSchema { .text(pattern: line, length: length) }

    /// A secret of one of these kinds.
    package static func secret(_ kinds: [BearerSecret.Kind]) -> JSONSchema {
        let prefixes = kinds.map(\.rawValue)
        let prefix = prefixes.count == 1 ? prefixes[0] : "(\(prefixes.joined(separator: "|")))"
        return .text(pattern: "^\(prefix)[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")
    }

    /// The schema without the lengths of texts and lists.
    package var withoutLengths: JSONSchema {
        switch self {
        case .text(_, _, .some, _): .text()
        case .list(let items, _): .list(of: items.withoutLengths)
        default: self
        }
    }

    /// The schema of the value in a reply, with the same form and without bounds.
    package var withoutBounds: JSONSchema {
        switch self {
        case .text(_, _, .some, _): .text()
        case .integer: .count
        case .list(let items, _): .list(of: items.withoutBounds)
        case .optional(let schema): schema.withoutBounds
        default: self
        }
    }
}
