// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// The JSON form of a value, and the allowed values. Each declared member has its limits in its format.
package struct ValueFormat<Value: Sendable>: Sendable {
    package typealias Decode = @Sendable (JSON, _ field: String) throws(ContractError) -> Value

    /// The schema of the value in a request.
    package private(set) var schema: JSONSchema
    /// The schema of the value in the reply of a complete message. It has no lengths, because an earlier version may
    /// have stored longer values.
    package private(set) var replySchema: JSONSchema
    /// Whether a reply can omit the member.
    package private(set) var isOptional = false
    /// The text for an omitted value in the audit log.
    package private(set) var omitted = "null"
    /// The value of a member that is missing in a complete message; `nil` if the member must be present.
    package private(set) var absent: Value?
    package let decode: Decode
    /// Returns `nil` if the member is omitted.
    package let encode: @Sendable (Value) -> JSON?

    package init(_ schema: JSONSchema, decode: @escaping Decode, encode: @escaping @Sendable (Value) -> JSON?) {
        self.schema = schema
        replySchema = schema.withoutLengths
        self.decode = decode
        self.encode = encode
    }

    /// A format for a value that is a JSON string.
    package init(
        _ schema: JSONSchema, _ read: @escaping @Sendable (ContractValue) throws(ContractError) -> Value,
        text: @escaping @Sendable (Value) -> String
    ) {
        self.init(schema) { (json, field) throws(ContractError) in
            try read(ContractValue(json: json, field: field))
        } encode: {
            .string(text($0))
        }
    }

    /// A format for text that is only in replies.
    package static func shown(_ text: @escaping @Sendable (Value) -> String) -> ValueFormat {
        ValueFormat(.text()) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "is not a known member")
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
        result.replySchema = format.replySchema
        result.isOptional = true
        result.omitted = omitted
        result.absent = .some(nil)
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
        result.absent = .some(nil)
        return result
    }

    /// Accepts an absent member and `null`, which decode to `nil`. Encoding omits `nil`, and the schema does not
    /// contain `null`.
    package static func optional<Wrapped>(_ format: ValueFormat<Wrapped>) -> ValueFormat where Value == Wrapped? {
        var result = nullable(format, omitted: "null")
        result.schema = format.schema
        return result
    }

    /// The same format, whose schema of replies contains the lengths too.
    package var withLengthsInReplies: ValueFormat {
        var result = self
        result.replySchema = schema
        return result
    }

    /// Accepts an absent member and `null`, which decode to `value`.
    package func defaulting(to value: Value) -> ValueFormat {
        let format = self
        var result = ValueFormat(schema) { (json, field) throws(ContractError) in
            json == .null ? value : try format.decode(json, field)
        } encode: {
            format.encode($0)
        }
        result.absent = value
        return result
    }

    /// The same JSON form for another type.
    package func map<Other>(
        _ make: @escaping @Sendable (Value) -> Other, _ value: @escaping @Sendable (Other) -> Value
    ) -> ValueFormat<Other> {
        let format = self
        var result = ValueFormat<Other>(schema) { (json, field) throws(ContractError) in
            make(try format.decode(json, field))
        } encode: {
            format.encode(value($0))
        }
        result.replySchema = replySchema
        (result.isOptional, result.omitted, result.absent) = (isOptional, omitted, absent.map(make))
        return result
    }

    /// The format without the values for which `refuse` returns a reason.
    package func refusing(_ refuse: @escaping @Sendable (Value) -> String?) -> ValueFormat {
        let format = self
        var result = ValueFormat(schema) { (json, field) throws(ContractError) in
            let value = try format.decode(json, field)
            if let problem = refuse(value) { throw ContractError(field: field, problem: problem) }
            return value
        } encode: {
            format.encode($0)
        }
        result.replySchema = replySchema
        (result.isOptional, result.omitted, result.absent) = (isOptional, omitted, absent)
        return result
    }

    package static func list<Item>(of format: ValueFormat<Item>, count: ClosedRange<Int>) -> ValueFormat
    where Value == [Item] {
        ValueFormat(.list(of: format.schema, count: count)) { (json, field) throws(ContractError) in
            guard case .array(let items) = json else { throw ContractError(field: field, problem: "must be a list") }
            guard count.contains(items.count) else {
                throw ContractError(
                    field: field,
                    problem: "must have \(count.lowerBound) to \(count.upperBound) entries, not \(items.count)"
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

/// One JSON value, with the path of its field for errors.
package struct ContractValue {
    package let json: JSON
    package let field: String

    package func error(_ problem: String) -> ContractError { ContractError(field: field, problem: problem) }

    package func text() throws(ContractError) -> String {
        guard case .string(let text) = json else { throw error("must be text") }
        return text
    }
}
