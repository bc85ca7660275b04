// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

extension PolicySet {
    /// The policies as JSON that ``init(json:)-(String)`` reads: the same bytes for the same policies.
    public var json: String {
        let writer = JSONWriter()
        return writer.text(value(hasVersion: true)) + "\n"
    }

    func value(hasVersion: Bool) -> JSONWriter.Value {
        var members: [(String, JSONWriter.Value)] = hasVersion ? [("version", .integer(1))] : []
        let unlisted: JSONWriter.Value =
            switch unlisted {
            case .refuse: .text("refuse")
            case .systemTrust: .text("systemTrust")
            case .pinned(let policy): .object(policy.members)
            }
        members.append(("unlistedHosts", unlisted))
        members.append(("hosts", .array(hosts.map { .object($0.members) })))
        return .object(members)
    }
}

extension HostPolicy {
    fileprivate var members: [(String, JSONWriter.Value)] {
        var members: [(String, JSONWriter.Value)]
        switch pattern.kind {
        case .exact, .wildcard: members = [("host", .text(pattern.description))]
        case .subdomains: members = [("host", .text(pattern.host.description)), ("includeSubdomains", .boolean(true))]
        }
        return members + (policy?.members ?? [("exclude", .boolean(true))])
    }
}

extension PinningPolicy {
    fileprivate var members: [(String, JSONWriter.Value)] {
        var members: [(String, JSONWriter.Value)] = [("mode", .text(mode.rawValue))]
        if !requiresSystemTrust { members.append(("requiresSystemTrust", .boolean(false))) }
        if allowsSystemTrustFallback { members.append(("allowsSystemTrustFallback", .boolean(true))) }
        if let expiry {
            members.append(("expires", .text(Timestamp.text(expiry.date))))
            members.append(("afterExpiry", .text(expiry.afterwards.rawValue)))
        }
        let pins = pins.map { pin in
            JSONWriter.Value.object([
                ("kind", .text(pin.kind.rawValue)), ("hash", .text(pin.hash.description)),
                ("role", .text(pin.role.rawValue)), ("scope", .text(pin.scope.rawValue)),
            ])
        }
        return members + [("pins", .array(pins))]
    }
}

/// Writes JSON with two spaces of indentation and names in the order they are given.
package struct JSONWriter {
    package enum Value {
        case null
        case boolean(Bool)
        case integer(Int64)
        case text(String)
        case array([Value])
        case object([(String, Value)])
    }

    package init() {}

    package func text(_ value: Value, indent: String = "") -> String {
        let inner = indent + "  "
        switch value {
        case .null: return "null"
        case .boolean(let value): return value ? "true" : "false"
        case .integer(let number): return String(number)
        case .text(let text): return quoted(text)
        case .array(let elements):
            guard !elements.isEmpty else { return "[]" }
            let lines = elements.map { inner + self.text($0, indent: inner) }
            return "[\n\(lines.joined(separator: ",\n"))\n\(indent)]"
        case .object(let members):
            guard !members.isEmpty else { return "{}" }
            let lines = members.map { "\(inner)\(quoted($0.0)): \(self.text($0.1, indent: inner))" }
            return "{\n\(lines.joined(separator: ",\n"))\n\(indent)}"
        }
    }

    private func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
