// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Provisioning
import TunnelSystem

extension JSONSchema {
    static let host = JSONSchema.text(note: "A host name or an IP address")
    static let interfaceAddress = JSONSchema.text(
        note: "An address with the length of its network, such as 10.66.0.1/16")
    static let service = JSONSchema.text(note: "tcp/PORT or udp/PORT")
}

extension ValueFormat where Value: FixedWidthInteger {
    /// A number of seconds, up to ten years.
    static func lifetime(from least: Int64 = 0) -> ValueFormat { seconds(from: least, through: 315_360_000) }

    static var port: ValueFormat { integer(1...65_535) }
}

extension ValueFormat where Value: Declared {
    /// A resource, which only replies contain.
    static var resource: ValueFormat {
        ValueFormat(Value.message.schema(.reply)) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "is not a known member")
        } encode: {
            Value.message.encode($0)
        }
    }
}

extension ValueFormat where Value == [String: String] {
    /// Texts with arbitrary names, which only replies contain.
    static var texts: ValueFormat<[String: String]> {
        ValueFormat(.texts) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "is not a known member")
        } encode: {
            .object($0.mapValues { .string($0) })
        }
    }
}

extension ValueFormat where Value == InterfaceAddress {
    static var interfaceAddress: ValueFormat<InterfaceAddress> {
        parsed(.interfaceAddress) { (text) throws(AddressTextError) in try InterfaceAddress(text) }
    }
}

extension ValueFormat where Value == String {
    /// A text with any characters, which only replies contain.
    static var replyText: ValueFormat<String> {
        ValueFormat(.text()) { (_, field) throws(ContractError) in
            throw ContractError(field: field, problem: "is not a known member")
        } encode: {
            .string($0)
        }
    }

    /// A host name or an IP address.
    static var reachableHost: ValueFormat<String> {
        parsed(.host, requirement: "must be the name or address at which devices reach the gateway") {
            (text) throws(AddressTextError) in
            _ = try EndpointAddress(host: text, port: 1)
            return text
        }
    }

    /// A user's login. It must not be empty to a reader, or equal to another login except for invisible characters.
    static var login: ValueFormat<String> {
        ValueFormat(.line(1...64)) { (json, field) throws(ContractError) in
            let login = try ValueFormat.line(1...64).decode(json, field)
            guard login.first?.isWhitespace == false, login.last?.isWhitespace == false else {
                throw ContractError(field: field, problem: "must not begin or end with a space")
            }
            guard !login.unicodeScalars.contains(where: \.isInvisible) else {
                throw ContractError(field: field, problem: "must not contain characters without width")
            }
            return login
        } encode: {
            .string($0)
        }
    }

    /// The path of a file.
    static var path: ValueFormat<String> { .line(1...4096) }

    /// The name of a network interface, which Linux limits to 15 bytes.
    static var interface: ValueFormat<String> {
        ValueFormat(.line(1...15)) { (json, field) throws(ContractError) in
            let name = try ValueFormat.line(1...15).decode(json, field)
            guard name.utf8.count <= 15 else { throw ContractError(field: field, problem: "must not exceed 15 bytes") }
            return name
        } encode: {
            .string($0)
        }
    }

    /// A service of the gateway's host.
    static var service: ValueFormat<String> {
        ValueFormat(.service) { (json, field) throws(ContractError) in
            let text = json.string ?? ""
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2, parts[0] == "tcp" || parts[0] == "udp", let port = UInt16(parts[1]), port > 0 else {
                throw ContractError(field: field, problem: "must be tcp/PORT or udp/PORT")
            }
            return text
        } encode: {
            .string($0)
        }
    }
}

extension Unicode.Scalar {
    /// Whether the character has no width, such as a zero-width space, a soft hyphen or a variation selector.
    fileprivate var isInvisible: Bool {
        properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format
    }
}
