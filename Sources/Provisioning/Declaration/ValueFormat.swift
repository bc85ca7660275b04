// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
package import TunnelSystem

/// The JSON form of a value and the values that are allowed. It contains the limits of declared members.
package struct ValueFormat<Value: Sendable>: Sendable {
    package typealias Decode = @Sendable (JSON, _ field: String) throws(ContractError) -> Value

    /// The schema of the value in a request.
    package let schema: JSONSchema
    /// Whether a reply can omit the member.
    package private(set) var isOptional = false
    /// The text for an omitted value in the audit log.
    package private(set) var omitted = "null"
    package let decode: Decode
    /// Returns `nil` if the member is omitted.
    package let encode: @Sendable (Value) -> JSON?

    package init(_ schema: JSONSchema, decode: @escaping Decode, encode: @escaping @Sendable (Value) -> JSON?) {
        self.schema = schema
        self.decode = decode
        self.encode = encode
    }

    /// A format for a value that is a JSON string.
    package init(
        _ schema: JSONSchema, _ read: @escaping @Sendable (ContractValue) throws(ContractError) -> Value,
        text: @escaping @Sendable (Value) -> String
    ) {
        self.init(schema) { (json, field) throws(ContractError) in
            try read(ContractValue(json: JSONValue(json), field: field))
        } encode: {
            .string(text($0))
        }
    }

    /// A format for text that replies show and no request contains.
    package static func shown(_ text: @escaping @Sendable (Value) -> String) -> ValueFormat {
        ValueFormat(.text()) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "there is no such member")
        } encode: {
            .string(text($0))
        }
    }

    /// Accepts `null`, which decodes to `nil`. Encoding omits `nil`.
    /// - Parameter omitted: The text for `nil` in the audit log.
    package static func nullable<Wrapped>(
        _ format: ValueFormat<Wrapped>, omitted: String
    ) -> ValueFormat where Value == Wrapped? {
        var result = ValueFormat(.optional(format.schema)) { (json, field) throws(ContractError) in
            json == .null ? nil : try format.decode(json, field)
        } encode: {
            $0.flatMap(format.encode)
        }
        result.isOptional = true
        result.omitted = omitted
        return result
    }

    /// Rejects `null`. Encoding omits `nil`.
    package static func omittable<Wrapped>(_ format: ValueFormat<Wrapped>) -> ValueFormat where Value == Wrapped? {
        var result = ValueFormat(format.schema) { (json, field) throws(ContractError) in
            try format.decode(json, field)
        } encode: {
            $0.flatMap(format.encode)
        }
        result.isOptional = true
        return result
    }

    package static func list<Item>(of format: ValueFormat<Item>, count: ClosedRange<Int>) -> ValueFormat
    where Value == [Item] {
        ValueFormat(.list(of: format.schema, count: count)) { (json, field) throws(ContractError) in
            guard case .array(let items) = json else { throw ContractError(field: field, problem: "must be a list") }
            guard count.contains(items.count) else {
                throw ContractError(
                    field: field,
                    problem: "there are \(items.count) entries; \(count.lowerBound) to \(count.upperBound) are possible"
                )
            }
            var values: [Item] = []
            for (index, item) in items.enumerated() { values.append(try format.decode(item, "\(field)[\(index)]")) }
            return values
        } encode: {
            .array($0.compactMap(format.encode))
        }
    }
}
