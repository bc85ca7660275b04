// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

extension Field {
    /// An object whose members a patch changes individually: missing members keep their values.
    package init<Part: Sendable>(
        part name: String, _ path: any WritableKeyPath<Root, Part> & Sendable, _ message: Message<Part>,
        _ note: FieldNote = ""
    ) {
        let format = ValueFormat<Part>(message.schema(.patch)) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "must be changed member by member")
        } encode: {
            message.encode($0)
        }
        self.name = name
        self.path = path
        self.format = format
        self.note = note
        column = nil
        auditName = name
        options = .patch
        schema = format.schema
        isOptional = false
        omitted = format.omitted
        isHidden = false
        encode = { message.encode($0[keyPath: path]) }
        decode = { (json, field) throws(ContractError) in
            let values = try message.decode(json, .patch, at: field)
            return FieldValue(name: name, path: path, json: json, value: values) {
                values.apply(to: &$0[keyPath: path])
            }
        }
    }
}
