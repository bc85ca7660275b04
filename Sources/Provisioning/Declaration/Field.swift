// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// A use of a message.
package enum MessageForm: Hashable, Sendable, CaseIterable {
    /// A reply, which shows the resource.
    case reply
    /// A request that creates the resource.
    case create
    /// A request that changes members of the resource.
    case patch
}

/// The requests that may contain a field. A field without options is only in replies.
package struct FieldOptions: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    /// A creation request may contain the member.
    package static let create = FieldOptions(rawValue: 1)
    /// A creation request must contain the member.
    package static let required: FieldOptions = [create, FieldOptions(rawValue: 2)]
    /// A patch may contain the member.
    package static let patch = FieldOptions(rawValue: 4)
    /// The audit log records that the member changed, but not its value.
    package static let redacted = FieldOptions(rawValue: 8)
}

/// The description of a field, and the forms whose schema contains it. A literal applies to all forms.
package struct FieldNote: ExpressibleByStringLiteral, Sendable {
    let text: String
    let forms: Set<MessageForm>

    package init(stringLiteral value: String) { self.init(value, Set(MessageForm.allCases)) }

    private init(_ text: String, _ forms: Set<MessageForm>) {
        self.text = text
        self.forms = forms
    }

    package static func create(_ text: String) -> FieldNote { FieldNote(text, [.create]) }
    package static func patch(_ text: String) -> FieldNote { FieldNote(text, [.patch]) }
}

/// One member of a message: its name, format, bounds, the requests that may contain it, and its description.
package struct Field<Root: Sendable>: Sendable {
    typealias Decode = @Sendable (JSON, _ field: String) throws(ContractError) -> FieldValue<Root>

    package let name: String
    /// The name in the details of audit entries.
    let auditName: String
    package let options: FieldOptions
    /// The schema in requests.
    package let schema: JSONSchema
    let isOptional: Bool
    /// Whether no reply and no request contains the field.
    package let isHidden: Bool
    let note: FieldNote
    /// The title of the column in the command line's tables, or `nil` for no column.
    let column: String?
    let path: any PartialKeyPath<Root> & Sendable
    /// The `ValueFormat<Value>` of the field.
    let format: any Sendable
    let omitted: String
    let encode: @Sendable (Root) -> JSON?
    /// `nil` if no request may contain the field.
    let decode: Decode?

    /// A field that is only in replies.
    package init<Value>(
        _ name: String, _ path: any KeyPath<Root, Value> & Sendable, _ format: ValueFormat<Value>,
        column: String? = nil, _ note: FieldNote = ""
    ) {
        self.name = name
        self.path = path
        self.format = format
        self.note = note
        self.column = column
        auditName = name
        options = []
        schema = format.schema
        isOptional = format.isOptional
        omitted = format.omitted
        isHidden = false
        encode = { format.encode($0[keyPath: path]) }
        decode = nil
    }

    /// A field that is in replies and in the requests that `options` selects.
    /// - Parameter auditName: The name in the details of audit entries, if it differs from the name of the member.
    package init<Value>(
        _ name: String, _ path: any WritableKeyPath<Root, Value> & Sendable, _ format: ValueFormat<Value>,
        options: FieldOptions, column: String? = nil, auditName: String? = nil, _ note: FieldNote = ""
    ) {
        self.name = name
        self.path = path
        self.format = format
        self.options = options
        self.note = note
        self.column = column
        self.auditName = auditName ?? name
        schema = format.schema
        isOptional = format.isOptional
        omitted = format.omitted
        isHidden = false
        encode = { format.encode($0[keyPath: path]) }
        decode = { (json, field) throws(ContractError) in
            let value = try format.decode(json, field)
            // Encode the value again, because the audit log and the recognition of repeated creations must not depend
            // on the client's spelling.
            return FieldValue(name: name, path: path, json: format.encode(value) ?? .null, value: value) {
                $0[keyPath: path] = value
            }
        }
    }

    /// A field that only programs change and that no JSON contains. The audit log records only that it has changed.
    package init<Value: Sendable>(hidden name: String, _ path: any WritableKeyPath<Root, Value> & Sendable) {
        self.name = name
        self.path = path
        format = ValueFormat<Value>(.text()) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "is not a known member")
        } encode: { _ in
            nil
        }
        note = ""
        column = nil
        auditName = name
        options = .redacted
        schema = .text()
        isOptional = true
        omitted = "null"
        isHidden = true
        encode = { _ in nil }
        decode = nil
    }

    /// Whether a message of this form may contain the field.
    package func isIn(_ form: MessageForm) -> Bool {
        switch form {
        case .reply: !isHidden
        case .create: options.contains(.create)
        case .patch: options.contains(.patch)
        }
    }

    /// Whether a message of this form must contain the field.
    package func isRequired(in form: MessageForm) -> Bool {
        switch form {
        case .reply: !isOptional
        case .create: options.contains(.required)
        case .patch: false
        }
    }
}

@resultBuilder
package enum FieldList<Root: Sendable> {
    package static func buildExpression(_ field: Field<Root>) -> Field<Root> { field }
    package static func buildBlock(_ fields: Field<Root>...) -> [Field<Root>] { fields }
}
