// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A JSON document whose objects keep the order of their members (RFC 8259).
package enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// A number as JSON text.
    case number(String)
    case string(String)
    case array([JSON])
    case object([Member])

    package struct Member: Equatable, Sendable {
        package var name: String
        package var value: JSON

        package init(name: String, value: JSON) {
            self.name = name
            self.value = value
        }
    }

    package static func integer(_ value: some BinaryInteger) -> JSON { .integer(Int64(clamping: value)) }

    package static func object(of members: [(String, JSON)]) -> JSON {
        .object(members.map { Member(name: $0.0, value: $0.1) })
    }

    /// The document over several lines, indented by two spaces, without a newline at its end.
    package var text: String {
        var text = ""
        write(to: &text, lineBreak: "\n")
        return text
    }

    /// The document in one line.
    package var line: String {
        var text = ""
        write(to: &text, lineBreak: "")
        return text
    }

    /// The document in one line, in UTF-8.
    package var bytes: [UInt8] { Array(line.utf8) }

    /// - Parameter lineBreak: the end of a line and the indentation of the next; empty to write one line.
    private func write(to text: inout String, lineBreak: String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value): text += "\(value)"
        case .number(let value): text += value
        case .string(let value): JSON.quote(value, to: &text)
        case .array(let values):
            JSON.list(values, "[", "]", to: &text, lineBreak) { $0.write(to: &$1, lineBreak: $2) }
        case .object(let members):
            JSON.list(members, "{", "}", to: &text, lineBreak) { member, text, lineBreak in
                JSON.quote(member.name, to: &text)
                text += lineBreak.isEmpty ? ":" : ": "
                member.value.write(to: &text, lineBreak: lineBreak)
            }
        }
    }

    private static func list<Item>(
        _ items: [Item], _ open: String, _ close: String, to text: inout String, _ lineBreak: String,
        _ write: (Item, inout String, String) -> Void
    ) {
        text += open
        let inner = lineBreak.isEmpty ? "" : lineBreak + "  "
        for (index, item) in items.enumerated() {
            text += (index > 0 ? "," : "") + inner
            write(item, &text, inner)
        }
        text += (items.isEmpty ? "" : lineBreak) + close
    }

    private static func quote(_ value: String, to text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case _ where scalar.isControl:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral {
    package init(dictionaryLiteral members: (String, JSON)...) { self = .object(of: members) }

    package init(stringLiteral value: String) { self = .string(value) }

    package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension Unicode.Scalar {
    /// Whether this is a C0 or C1 control character, DEL, or a mark that changes the direction of the text around it.
    /// None of these should be written to a terminal.
    package var isControl: Bool {
        switch value {
        case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}
