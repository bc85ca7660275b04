// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// One member of a complete message: its name, format, bounds, whether it can be absent, and its description.
package struct TypedField<Root: Sendable, Value: Sendable>: Sendable {
    let name: String
    let path: any KeyPath<Root, Value> & Sendable
    let format: ValueFormat<Value>
    /// The value of an absent member, or `nil` if the member must be present.
    let absent: Value?
    let note: String

    /// - Parameter absent: The value of an absent member. The default is that of the format: `nil` if the value is
    ///   optional; otherwise there is none, and the member must be present.
    package init(
        _ name: String, _ path: any KeyPath<Root, Value> & Sendable, _ format: ValueFormat<Value>,
        absent: Value? = nil, _ note: String = ""
    ) {
        self.name = name
        self.path = path
        self.format = format
        self.absent = absent ?? format.absent
        self.note = note
    }

    fileprivate var member: CompleteMember<Root> {
        let (path, format) = (path, format)
        return CompleteMember(
            name: name, schema: format.schema, replySchema: format.replySchema, isOptional: format.isOptional,
            canBeAbsent: absent != nil, note: note
        ) { format.encode($0[keyPath: path]) }
    }

    fileprivate func decode(_ members: [JSON.Member], _ prefix: String) throws(ContractError) -> Value {
        // Compare UTF-8, because Swift's `==` also accepts canonically equivalent strings.
        guard let member = members.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
            guard let absent else { throw ContractError(field: prefix + name, problem: "must be present") }
            return absent
        }
        return try format.decode(member.value, prefix + name)
    }
}

/// A member of a complete message without the type of its value.
private struct CompleteMember<Root: Sendable>: Sendable {
    let name: String
    let schema: JSONSchema
    let replySchema: JSONSchema
    let isOptional: Bool
    let canBeAbsent: Bool
    let note: String
    let encode: @Sendable (Root) -> JSON?
}

/// The JSON form of a value that is decoded as a whole: a message of the device API, a request that changes no
/// resource, or a part of a message.
///
/// The decoded values are passed to the type's initialiser, in the order of the fields, so no placeholder is needed for
/// a key or a secret.
public struct CompleteMessage<Root: Sendable>: Sendable {
    private let members: [CompleteMember<Root>]
    private let read: @Sendable (_ found: [JSON.Member], _ prefix: String) throws(ContractError) -> Root

    /// - Parameters:
    ///   - make: The initialiser. It may refuse a combination of values, with an error whose path is that of a member
    ///     of this message.
    ///   - fields: The members, in the order of the initialiser's parameters.
    ///   - check: Refuses combinations of values, like `make`.
    package init<each Value: Sendable>(
        _ make: @escaping @Sendable (repeat each Value) throws(ContractError) -> Root,
        _ fields: repeat TypedField<Root, each Value>,
        check: @escaping @Sendable (Root) throws(ContractError) -> Void = { _ in }
    ) {
        var members: [CompleteMember<Root>] = []
        for field in repeat each fields { members.append(field.member) }
        self.members = members
        let all = (repeat each fields)
        read = { (found, prefix) throws(ContractError) in
            let values = (repeat try (each all).decode(found, prefix))
            do throws(ContractError) {
                let root = try make(repeat each values)
                try check(root)
                return root
            } catch {
                throw ContractError(field: prefix + error.field, problem: error.problem)
            }
        }
    }

    /// The value as an object whose members are in alphabetical order.
    package func encode(_ root: Root) -> JSON { .object(members(root)) }

    /// The members of the object, in alphabetical order.
    package func members(_ root: Root) -> [JSON.Member] {
        members.compactMap { member in member.encode(root).map { JSON.Member(name: member.name, value: $0) } }
            .sorted { $0.name < $1.name }
    }

    /// The schema of a request, which must not contain other members, or of a reply.
    package func schema(_ form: MessageForm) -> JSONSchema { .object(schemaMembers(form), isClosed: form != .reply) }

    /// The members of a form's schema.
    package func schemaMembers(_ form: MessageForm) -> [JSONSchema.Member] {
        members.map { member in
            JSONSchema.Member(
                member.name, form == .reply ? member.replySchema : member.schema,
                isRequired: form == .reply ? !member.isOptional : !member.canBeAbsent, note: member.note)
        }
    }

    /// Decodes a message. ``TunnelSystem/JSON`` has rejected members that occur twice.
    /// - Parameters:
    ///   - form: `.create` for a request, which must not contain other members, or `.reply`, in which other members are
    ///     ignored.
    ///   - path: The path of the object in the body, for errors. Empty for the body.
    /// - Throws: ``ContractError`` for the first member that is unknown, not valid or missing.
    package func decode(_ json: JSON, _ form: MessageForm, at path: String = "") throws(ContractError) -> Root {
        let prefix = path.isEmpty ? "" : path + "."
        guard case .object(let found) = json else {
            throw ContractError(field: path.isEmpty ? "body" : path, problem: "must be an object")
        }
        for member in found where form != .reply {
            guard members.contains(where: { $0.name.utf8.elementsEqual(member.name.utf8) }) else {
                throw ContractError(
                    field: prefix + ContractError.visible(member.name), problem: "is not a known member")
            }
        }
        return try read(found, prefix)
    }

    /// Checks a value that this program made as if a client had sent it.
    /// - Throws: ``ContractError`` for the first member that is not valid.
    package func check(_ root: Root) throws(ContractError) { _ = try decode(encode(root), .create) }
}

extension ValueFormat {
    /// An object that is a part of another message.
    /// - Parameter form: `.create` if the object must not contain other members, or `.reply` if they are ignored.
    package static func object(_ message: CompleteMessage<Value>, _ form: MessageForm) -> ValueFormat {
        ValueFormat(message.schema(form)) { (json, field) throws(ContractError) in
            try message.decode(json, form, at: field)
        } encode: {
            message.encode($0)
        }
    }
}
