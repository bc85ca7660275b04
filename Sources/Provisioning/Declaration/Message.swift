// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// A type with a declaration of its JSON form.
package protocol Declared: Sendable {
    static var message: Message<Self> { get }
}

/// The JSON form of a resource in replies, in creation requests and in patches.
package struct Message<Root: Sendable>: Sendable {
    package let fields: [Field<Root>]
    private let ignoresNull: Bool

    /// - Parameter ignoresNull: Whether a member that is `null` in a request has the same effect as a missing one.
    package init(ignoresNull: Bool = false, @FieldList<Root> _ fields: () -> [Field<Root>]) {
        self.fields = fields()
        self.ignoresNull = ignoresNull
    }

    /// The JSON of a reply.
    package func encode(_ root: Root) -> JSON { .object(members(root)) }

    /// The members of a reply.
    package func members(_ root: Root) -> [JSON.Member] {
        fields.compactMap { field in
            field.isHidden ? nil : field.encode(root).map { JSON.Member(name: field.name, value: $0) }
        }
    }

    /// The schema of a form. Requests must not contain other members. The schemas of replies have no bounds, because an
    /// earlier version may have stored values outside them.
    package func schema(_ form: MessageForm) -> JSONSchema { .object(schemaMembers(form), isClosed: form != .reply) }

    /// The members of a form's schema.
    package func schemaMembers(_ form: MessageForm) -> [JSONSchema.Member] {
        fields.filter { $0.isIn(form) }.map { field in
            JSONSchema.Member(
                field.name, form == .reply ? field.schema.withoutBounds : field.schema,
                isRequired: field.isRequired(in: form), note: field.note.forms.contains(form) ? field.note.text : "")
        }
    }

    /// The columns of the command line's tables, in the order of the fields.
    /// - Parameter first: The name of the member in the first column; `nil` for the first field that has a column.
    package func columns(first: String? = nil) -> [(title: String, member: String)] {
        let columns = fields.compactMap { field in field.column.map { (title: $0, member: field.name) } }
        return columns.filter { $0.member == first } + columns.filter { $0.member != first }
    }

    /// Decodes the members that the client sent. ``TunnelSystem/JSON`` has rejected members that occur twice.
    /// - Parameters:
    ///   - form: `.create` or `.patch`.
    ///   - path: The path of the object in the body, for errors. Empty for the body.
    /// - Throws: ``ContractError`` for the first member that is unknown, not valid or missing.
    package func decode(
        _ json: JSON, _ form: MessageForm, at path: String = ""
    ) throws(ContractError) -> FieldValues<Root> {
        let prefix = path.isEmpty ? "" : path + "."
        guard case .object(let members) = json else {
            throw ContractError(field: path.isEmpty ? "body" : path, problem: "must be an object")
        }
        var values: [FieldValue<Root>] = []
        for member in members {
            // Compare UTF-8, because Swift's `==` also accepts canonically equivalent strings.
            guard
                let field = fields.first(where: {
                    $0.name.utf8.elementsEqual(member.name.utf8) && $0.isIn(form)
                }),
                let decode = field.decode
            else {
                throw ContractError(
                    field: prefix + ContractError.visible(member.name), problem: "is not a known member")
            }
            if ignoresNull, member.value == .null { continue }
            values.append(try decode(member.value, prefix + member.name))
        }
        for field in fields where field.isRequired(in: form) {
            guard values.contains(where: { $0.name == field.name }) else {
                throw ContractError(field: prefix + field.name, problem: "must be present")
            }
        }
        return FieldValues(values)
    }

    /// Checks the members of a value that this program made as if a client had sent them in a patch.
    /// - Throws: ``ContractError`` for the first member that is not valid.
    package func check(_ root: Root) throws(ContractError) {
        let members = fields.filter { $0.isIn(.patch) }.compactMap { field in
            field.encode(root).map { JSON.Member(name: field.name, value: $0) }
        }
        _ = try decode(.object(members), .patch)
    }
}
