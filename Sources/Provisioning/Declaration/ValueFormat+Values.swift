// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import TunnelSystem
package import WireGuardCore

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

extension ValueFormat where Value == String {
    /// Any text. Bounds in the schema are not checked.
    package static func anyText(_ schema: JSONSchema = .text()) -> ValueFormat {
        ValueFormat(schema) { (value) throws(ContractError) in
            try value.text()
        } text: {
            $0
        }
    }

    /// One line of text without control characters.
    /// - Parameter length: The number of characters.
    package static func line(_ length: ClosedRange<Int>) -> ValueFormat {
        ValueFormat(.line(length)) { (value) throws(ContractError) in
            let text = try value.text()
            guard length.contains(text.count) else {
                throw value.error(
                    "must have \(length.lowerBound) to \(length.upperBound) characters, not \(text.count)")
            }
            guard text.utf8.count <= 4 * length.upperBound else {
                throw value.error("must not exceed \(4 * length.upperBound) bytes")
            }
            guard !text.contains(where: \.isNewline), !text.unicodeScalars.contains(where: \.isControl) else {
                throw value.error("must not contain control characters")
            }
            return text
        } text: {
            $0
        }
    }
}

extension ValueFormat where Value: FixedWidthInteger {
    /// A number that is not negative.
    package static var count: ValueFormat { integer(0...Int64.max) }

    /// A number of seconds.
    /// - Parameter most: The upper bound; the default is more than a hundred years.
    package static func seconds(from least: Int64 = 0, through most: Int64 = 4_000_000_000) -> ValueFormat {
        integer(least...most)
    }

    package static func integer(_ range: ClosedRange<Int64>) -> ValueFormat {
        ValueFormat(.integer(range)) { (json, field) throws(ContractError) in
            guard case .integer(let number) = json else {
                throw ContractError(field: field, problem: "must be a whole number")
            }
            guard range.contains(number) else {
                throw ContractError(
                    field: field, problem: "must be \(range.lowerBound) to \(range.upperBound), not \(number)")
            }
            guard let value = Value(exactly: number) else {
                throw ContractError(field: field, problem: "\(number) is too large")
            }
            return value
        } encode: {
            .integer(Int64(clamping: $0))
        }
    }
}

extension ValueFormat where Value: RawRepresentable<String> & CaseIterable {
    /// The raw value of a case.
    package static var choice: ValueFormat {
        let names = Value.allCases.map(\.rawValue)
        return ValueFormat(.choice(names)) { (value) throws(ContractError) in
            guard let choice = Value(rawValue: try value.text()) else {
                throw value.error("must be one of \(names.joined(separator: ", "))")
            }
            return choice
        } text: {
            $0.rawValue
        }
    }
}

extension ValueFormat where Value == Bool {
    package static var flag: ValueFormat {
        ValueFormat(.flag) { (json, field) throws(ContractError) in
            guard case .bool(let value) = json else {
                throw ContractError(field: field, problem: "must be true or false")
            }
            return value
        } encode: {
            .bool($0)
        }
    }
}

extension ValueFormat where Value == RandomID {
    package static var id: ValueFormat {
        ValueFormat(.id) { (value) throws(ContractError) in
            guard let id = RandomID(try value.text()) else { throw value.error("must be an ID of 26 characters") }
            return id
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value == Date {
    /// A time in UTC (RFC 3339), in whole seconds.
    package static var time: ValueFormat<Date> {
        ValueFormat(.time) { (value) throws(ContractError) in
            let text = try value.text()
            guard let date = try? Date(text, strategy: .iso8601), date.formatted(.iso8601) == text else {
                throw value.error("must be a time such as 2026-01-31T12:00:00Z")
            }
            return date
        } text: {
            $0.formatted(.iso8601)
        }
    }
}

extension ValueFormat {
    /// 32 bytes in Base64, with padding.
    fileprivate static func base64Key(
        _ read: @escaping @Sendable (String) -> Value?, text: @escaping @Sendable (Value) -> String
    ) -> ValueFormat {
        ValueFormat(.key) { (value) throws(ContractError) in
            guard let key = read(try value.text()) else { throw value.error("must be a key of 32 bytes in Base64") }
            return key
        } text: {
            text($0)
        }
    }
}

extension ValueFormat where Value == PublicKey {
    package static var key: ValueFormat<PublicKey> {
        base64Key {
            PublicKey(base64: $0).flatMap { $0.isZero ? nil : $0 }
        } text: {
            $0.base64
        }
    }
}

extension ValueFormat where Value == PrivateKey {
    package static var privateKey: ValueFormat<PrivateKey> {
        base64Key {
            PrivateKey(base64: $0).flatMap { $0.isZero ? nil : $0 }
        } text: {
            $0.exportedBase64
        }
    }
}

extension ValueFormat where Value == PresharedKey {
    package static var presharedKey: ValueFormat<PresharedKey> {
        base64Key {
            PresharedKey(base64: $0).flatMap { $0.isZero ? nil : $0 }
        } text: {
            $0.exportedBase64
        }
    }
}

extension ValueFormat where Value == [UInt8] {
    /// 32 bytes in Base64, with padding. They can all be zero.
    package static var bytes32: ValueFormat {
        ValueFormat(.key) { (value) throws(ContractError) in
            guard let key = PublicKey(base64: try value.text()) else {
                throw value.error("must be 32 bytes in Base64")
            }
            return key.bytes
        } text: {
            Data($0).base64EncodedString()
        }
    }
}

extension ValueFormat where Value == BearerSecret {
    package static func secret(_ kinds: BearerSecret.Kind...) -> ValueFormat<BearerSecret> {
        ValueFormat(.secret(kinds)) { (value) throws(ContractError) in
            guard let secret = BearerSecret(try value.text()), kinds.contains(secret.kind) else {
                let prefixes = kinds.map(\.rawValue).joined(separator: "' or '")
                throw value.error("must be '\(prefixes)' and 43 characters")
            }
            return secret
        } text: {
            $0.exportedText
        }
    }
}

extension ValueFormat where Value == ServerKeyPin {
    package static var pin: ValueFormat<ServerKeyPin> {
        ValueFormat(.text()) { (value) throws(ContractError) in
            guard let pin = ServerKeyPin(try value.text()) else {
                throw value.error("must be 'sha256/' and 32 bytes in Base64")
            }
            return pin
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value: CustomStringConvertible {
    /// A format for an address or a name. The parser describes the error in a text.
    /// - Parameter requirement: The text before the parser's description.
    package static func parsed(
        _ schema: JSONSchema, requirement: String = "",
        _ parse: @escaping @Sendable (String) throws(AddressTextError) -> Value
    ) -> ValueFormat {
        ValueFormat(schema) { (value) throws(ContractError) in
            let text = try value.text()
            do throws(AddressTextError) {
                return try parse(text)
            } catch {
                throw value.error(requirement.isEmpty ? "\(error)" : "\(requirement): \(error)")
            }
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value == IPAddress {
    package static var address: ValueFormat<IPAddress> {
        parsed(.address) { (text) throws(AddressTextError) in try IPAddress(text) }
    }
}

extension ValueFormat where Value == IPPrefix {
    package static var network: ValueFormat<IPPrefix> {
        parsed(.prefix) { (text) throws(AddressTextError) in try IPPrefix(text) }
    }
}

extension ValueFormat where Value == EndpointAddress {
    package static var endpoint: ValueFormat<EndpointAddress> {
        parsed(.endpoint, requirement: "must be HOST:PORT") { (text) throws(AddressTextError) in
            try EndpointAddress(text)
        }
    }
}

extension ValueFormat where Value == String {
    /// A host name, or the text of an address.
    package static var host: ValueFormat {
        parsed(.text()) { (text) throws(AddressTextError) in try EndpointAddress(host: text, port: 1).host }
    }

    package static var domain: ValueFormat {
        parsed(.text()) { (text) throws(AddressTextError) in
            let bytes = ContiguousArray(text.utf8)
            try HostNameSyntax.check(bytes.span)
            return text
        }
    }
}

extension ValueFormat where Value == [String] {
    /// The search domains of a client's resolver.
    package static var searchDomains: ValueFormat { .list(of: .domain, count: 0...64) }
}

extension ValueFormat where Value == ClosedRange<UInt16> {
    /// A port or a range of ports, such as `443` or `8000-8100`.
    package static var ports: ValueFormat {
        ValueFormat(.ports) { (value) throws(ContractError) in
            let parts = try value.text().split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count <= 2, let first = parts.first.flatMap({ UInt16($0) }), first > 0,
                let last = parts.last.flatMap({ UInt16($0) }), first <= last,
                parts.allSatisfy({ part in part.utf8.allSatisfy { (48...57).contains($0) } && !part.hasPrefix("0") })
            else { throw value.error("must be a port such as 443, or a range such as 8000-8100") }
            return first...last
        } text: {
            $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)"
        }
    }
}
