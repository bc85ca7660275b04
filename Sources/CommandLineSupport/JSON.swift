// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A JSON document whose objects keep the order of their members (RFC 8259).
package enum JSON: Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// A number with this many digits behind the point.
    case decimal(Double, places: Int)
    case string(String)
    case array([JSON])
    case object([Member])

    package struct Member: Equatable {
        package var name: String
        package var value: JSON

        package init(name: String, value: JSON) {
            self.name = name
            self.value = value
        }
    }

    package static func integer(_ value: some BinaryInteger) -> JSON { .integer(Int64(clamping: value)) }

    /// The document over several lines, indented by two spaces, without a newline at its end.
    package var text: String {
        var text = ""
        write(to: &text, depth: 0)
        return text
    }

    /// The document in one line.
    package var line: String {
        switch self {
        case .array(let values): return "[" + values.map(\.line).joined(separator: ",") + "]"
        case .object(let members):
            return "{" + members.map { "\(JSON.string($0.name).text):\($0.value.line)" }.joined(separator: ",") + "}"
        default: return text
        }
    }

    private func write(to text: inout String, depth: Int) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value): text += "\(value)"
        case .decimal(let value, let places):
            // A number may not have grouping commas, and what is not finite has no form.
            let number = Figure.decimal(value, places: places).filter { $0 != "," }
            text += number == "-" ? "null" : number
        case .string(let value): JSON.quote(value, to: &text)
        case .array(let values):
            JSON.list(values, "[", "]", to: &text, depth) { value, text in value.write(to: &text, depth: depth + 1) }
        case .object(let members):
            JSON.list(members, "{", "}", to: &text, depth) { member, text in
                JSON.quote(member.name, to: &text)
                text += ": "
                member.value.write(to: &text, depth: depth + 1)
            }
        }
    }

    private static func list<Item>(
        _ items: [Item], _ open: String, _ close: String, to text: inout String, _ depth: Int,
        _ write: (Item, inout String) -> Void
    ) {
        guard !items.isEmpty else {
            text += open + close
            return
        }
        let indent = String(repeating: "  ", count: depth)
        text += open + "\n"
        for (index, item) in items.enumerated() {
            text += indent + "  "
            write(item, &text)
            text += index + 1 < items.count ? ",\n" : "\n"
        }
        text += indent + close
    }

    private static func quote(_ value: String, to text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.value < 0x20 || scalar.value == 0x7f:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral {
    package init(dictionaryLiteral members: (String, JSON)...) {
        self = .object(members.map { Member(name: $0.0, value: $0.1) })
    }

    package init(stringLiteral value: String) { self = .string(value) }

    package init(booleanLiteral value: Bool) { self = .bool(value) }
}
