// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
import TunnelSystem
package import WireGuardCore

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// The members of an object, read one by one.
package struct ContractFields {
    private let members: [String: JSONValue]
    private let path: String

    /// - Parameter known: the names that may be there; nil where others are ignored.
    package init(_ json: JSONValue, path: String = "", known: Set<String>? = nil) throws(ContractError) {
        guard case .object(let members) = json else {
            throw ContractError(field: path.isEmpty ? "body" : path, problem: "it is no object")
        }
        self.members = members
        self.path = path
        if let known, let other = members.keys.filter({ !known.contains($0) }).min() {
            throw ContractError(field: field(ContractError.visible(other)), problem: "there is no such member")
        }
    }

    package func field(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    package func value<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value {
        guard let json = members[name] else { throw ContractError(field: field(name), problem: "it is missing") }
        return try read(ContractValue(json: json, field: field(name)))
    }

    /// nil also for `null`.
    package func optional<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value? {
        guard let json = members[name], json != .null else { return nil }
        return try read(ContractValue(json: json, field: field(name)))
    }
}

extension ContractFields {
    /// What a member is to become: nil where it is not there, `.some(nil)` for `null`.
    package func change<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value?? {
        guard let json = members[name] else { return nil }
        guard json != .null else { return .some(nil) }
        return .some(try read(ContractValue(json: json, field: field(name))))
    }
}

/// One value, and the field that it is in.
package struct ContractValue {
    package let json: JSONValue
    package let field: String

    package func error(_ problem: String) -> ContractError { ContractError(field: field, problem: problem) }

    package func list<Value>(
        _ count: ClosedRange<Int>, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> [Value] {
        guard case .array(let items) = json else { throw error("it is no list") }
        guard count.contains(items.count) else {
            throw error("there are \(items.count) entries; \(count.lowerBound) to \(count.upperBound) are possible")
        }
        var values: [Value] = []
        for (index, item) in items.enumerated() {
            values.append(try read(ContractValue(json: item, field: "\(field)[\(index)]")))
        }
        return values
    }

    package func integer(_ range: ClosedRange<Int64>) throws(ContractError) -> Int64 {
        guard case .integer(let value) = json else { throw error("it is no whole number") }
        guard range.contains(value) else { throw error("\(value) is not in \(range.lowerBound)...\(range.upperBound)") }
        return value
    }

    /// Whole seconds: up to a hundred years and more.
    package func seconds(from least: Int64 = 0) throws(ContractError) -> Int64 { try integer(least...4_000_000_000) }

    package func flag() throws(ContractError) -> Bool {
        guard case .bool(let value) = json else { throw error("it is neither true nor false") }
        return value
    }

    package func text() throws(ContractError) -> String {
        guard case .string(let text) = json else { throw error("it is no text") }
        return text
    }

    /// A text that is shown to people: a line, with nothing in it that moves the cursor.
    package func label(_ count: ClosedRange<Int>) throws(ContractError) -> String {
        let text = try text()
        guard count.contains(text.count), text.utf8.count <= 4 * count.upperBound else {
            throw error("it has \(text.count) characters; \(count.lowerBound) to \(count.upperBound) are possible")
        }
        guard !text.contains(where: \.isNewline), !text.unicodeScalars.contains(where: \.isControl) else {
            throw error("it has control characters")
        }
        return text
    }

    /// 32 bytes in base64, with padding.
    package func bytes32() throws(ContractError) -> [UInt8] {
        guard let key = PublicKey(base64: try text()) else { throw error("it is not 32 bytes in base64") }
        return key.bytes
    }

    package func publicKey() throws(ContractError) -> PublicKey {
        guard let key = PublicKey(base64: try text()), !key.isZero else {
            throw error("it is no key of 32 bytes in base64")
        }
        return key
    }

    package func privateKey() throws(ContractError) -> PrivateKey {
        guard let key = PrivateKey(base64: try text()), !key.isZero else {
            throw error("it is no key of 32 bytes in base64")
        }
        return key
    }

    package func presharedKey() throws(ContractError) -> PresharedKey {
        guard let key = PresharedKey(base64: try text()), !key.isZero else {
            throw error("it is no key of 32 bytes in base64")
        }
        return key
    }

    package func secret(_ kinds: BearerSecret.Kind...) throws(ContractError) -> BearerSecret {
        guard let secret = BearerSecret(try text()), kinds.contains(secret.kind) else {
            throw error("it is not '\(kinds.map(\.rawValue).joined(separator: "' or '"))' and 43 characters")
        }
        return secret
    }

    package func pin() throws(ContractError) -> ServerKeyPin {
        guard let pin = ServerKeyPin(try text()) else { throw error("it is not 'sha256/' and 32 bytes in base64") }
        return pin
    }

    package func id() throws(ContractError) -> RandomID {
        guard let id = RandomID(try text()) else { throw error("it is no id of 26 characters") }
        return id
    }

    /// A time in UTC (RFC 3339), to the second.
    package func time() throws(ContractError) -> Date {
        let text = try text()
        guard let date = try? Date(text, strategy: .iso8601), date.formatted(.iso8601) == text else {
            throw error("it is no time such as 2026-01-31T12:00:00Z")
        }
        return date
    }

    package func address() throws(ContractError) -> IPAddress {
        try parsed { (text) throws(AddressTextError) in try IPAddress(text) }
    }

    package func prefix() throws(ContractError) -> IPPrefix {
        try parsed { (text) throws(AddressTextError) in try IPPrefix(text) }
    }

    package func endpoint() throws(ContractError) -> EndpointAddress {
        try parsed { (text) throws(AddressTextError) in try EndpointAddress(text) }
    }

    /// A host name; of an address its text.
    package func host() throws(ContractError) -> String {
        try parsed { (text) throws(AddressTextError) in try EndpointAddress(host: text, port: 1).host }
    }

    package func domain() throws(ContractError) -> String {
        try parsed { (text) throws(AddressTextError) in
            let bytes = ContiguousArray(text.utf8)
            try HostNameSyntax.check(bytes.span)
            return text
        }
    }

    private func parsed<Value>(_ read: (String) throws(AddressTextError) -> Value) throws(ContractError) -> Value {
        let text = try text()
        do throws(AddressTextError) {
            return try read(text)
        } catch {
            throw self.error("\(error)")
        }
    }
}

extension JSONValue {
    package static func texts(_ values: [some CustomStringConvertible]) -> JSONValue {
        .array(values.map { .string($0.description) })
    }

    package static func bytes(_ bytes: [UInt8]) -> JSONValue { .string(Data(bytes).base64EncodedString()) }

    package static func time(_ date: Date) -> JSONValue { .string(date.formatted(.iso8601)) }

    /// An object without the members that are nil.
    package static func members(_ members: [String: JSONValue?]) -> JSONValue {
        .object(members.compactMapValues { $0 })
    }
}
