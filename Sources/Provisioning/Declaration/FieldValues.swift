// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// The value of one member that a client sent or a program set.
package struct FieldValue<Root: Sendable>: Sendable {
    let name: String
    let path: any PartialKeyPath<Root> & Sendable
    /// The value as JSON; `null` for `nil` and for fields that no JSON contains.
    let json: JSON
    let value: any Sendable
    let apply: @Sendable (inout Root) -> Void
}

/// The members of a creation request or a patch. Members that are not set keep their values; a member can be set to
/// `nil`.
///
/// A program sets them like properties: `update.name = "Anna"`, `update.expiresAt = .some(nil)`. ``check(_:)`` refuses
/// a member that the type does not declare.
@dynamicMemberLookup
package struct FieldValues<Root: Sendable>: Sendable {
    private var values: [FieldValue<Root>]

    init(_ values: [FieldValue<Root>]) { self.values = values }

    /// Sets the given members.
    package func apply(to root: inout Root) { for value in values { value.apply(&root) } }

    /// The names of the members that are set, in the order in which they were set.
    package var names: [String] { values.map(\.name) }
}

extension FieldValues where Root: Declared {
    /// No members.
    package init() { self.init([]) }

    /// The value of a member; `nil` if it is not set.
    package subscript<Value: Sendable>(dynamicMember path: any WritableKeyPath<Root, Value> & Sendable) -> Value? {
        get {
            // Search first: if `Value` is optional, a cast alone could not distinguish a member that is set to `nil`
            // from a missing member.
            guard let given = values.first(where: { $0.path == path }) else { return nil }
            return given.value as? Value
        }
        set {
            values.removeAll { $0.path == path }
            guard let newValue else { return }
            let field = Root.message.fields.first { $0.path == path }
            let format = field?.format as? ValueFormat<Value>
            // If no field has this path, the path is the name. No message has a member with such a name, so the check
            // refuses it.
            values.append(
                FieldValue(
                    name: field?.name ?? "\(path)", path: path, json: format?.encode(newValue) ?? .null, value: newValue
                ) { $0[keyPath: path] = newValue })
        }
    }

    /// Sets a member to a value in its JSON form.
    /// - Throws: ``ContractError`` if the value is not valid.
    package mutating func set(_ path: any PartialKeyPath<Root> & Sendable, to json: JSON) throws(ContractError) {
        guard let field = Root.message.fields.first(where: { $0.path == path }), let decode = field.decode else {
            throw ContractError(field: "\(path)", problem: "is not a member of requests")
        }
        let value = try decode(json, field.name)
        values.removeAll { $0.path == path }
        values.append(value)
    }

    /// The JSON that a client sends. It does not contain hidden fields.
    package var json: JSON {
        let hidden = Set(Root.message.fields.filter(\.isHidden).map(\.name))
        return .object(of: values.filter { !hidden.contains($0.name) }.map { ($0.name, $0.json) })
    }

    /// Checks members that a program has set as if a client had sent them.
    /// - Throws: ``ContractError`` for the first member that is not valid or missing.
    package func check(_ form: MessageForm) throws(ContractError) {
        _ = try Root.message.decode(json, form)
    }

    /// The details of an audit entry: values as text, or `changed` for redacted fields, by the names in the audit log.
    package var details: [String: String] {
        var details: [String: String] = [:]
        for value in values {
            guard let field = Root.message.fields.first(where: { $0.name == value.name }) else { continue }
            details[field.auditName] =
                field.options.contains(.redacted)
                ? "changed" : value.json == .null ? field.omitted : value.json.plainText
        }
        return details
    }

    /// A text that differs between requests for different resources, and is independent of the order of members.
    /// - Parameter standard: A resource with no member set. Members with its values are omitted, so that a new field
    ///   does not change the text of earlier requests.
    package func canonicalText(standard: Root) -> String {
        var members: [String: JSON] = [:]
        for value in values {
            let field = Root.message.fields.first { $0.name == value.name }
            guard value.json != field?.encode(standard) ?? .null else { continue }
            members[value.name] = value.json
        }
        return JSON.object(members).line
    }
}

extension FieldValues: Equatable {
    /// Whether both set the same members to the same JSON. Fields that no JSON contains are compared by their
    /// presence.
    package static func == (first: FieldValues, second: FieldValues) -> Bool {
        func members(_ values: FieldValues) -> [String: JSON] {
            Dictionary(values.values.map { ($0.name, $0.json) }) { $1 }
        }
        return members(first) == members(second)
    }
}

extension FieldValues: CustomStringConvertible, CustomReflectable {
    /// The names of the members that are set, without their values, because a value can be a secret.
    package var description: String { "(\(names.joined(separator: ", ")))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension JSON {
    /// The value as plain text: strings without quotation marks, elements of arrays separated by spaces.
    fileprivate var plainText: String {
        switch self {
        case .string(let text): text
        case .array(let items): items.map(\.plainText).joined(separator: " ")
        default: line
        }
    }
}
