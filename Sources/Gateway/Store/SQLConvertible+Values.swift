// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer
import WireGuardCore

// Conversions of values. Rows are converted in the file with the statements of their table.

extension Date {
    /// Milliseconds since 1970, rounded down. A time outside of the range becomes its lower or upper bound.
    ///
    /// A whole number of milliseconds is unchanged, even if floating point makes it smaller by a few ten-thousandths.
    package var milliseconds: Int64 {
        let value = (timeIntervalSince1970 * 1000 + 0.001).rounded(.down)
        return Int64(exactly: value) ?? (value < 0 ? .min : .max)
    }

    package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

extension Optional: SQLConvertible where Wrapped: SQLConvertible {
    init?(sql value: SQLValue) {
        guard value != .null else {
            self = .none
            return
        }
        guard let wrapped = Wrapped(sql: value) else { return nil }
        self = .some(wrapped)
    }
    var sqlValue: SQLValue { map(\.sqlValue) ?? .null }
}

extension String: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .text(let text) = value else { return nil }
        self = text
    }
    var sqlValue: SQLValue { .text(self) }
}

extension Int64: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .integer(let number) = value else { return nil }
        self = number
    }
    var sqlValue: SQLValue { .integer(self) }
}

extension Data: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .bytes(let bytes) = value else { return nil }
        self = bytes
    }
    var sqlValue: SQLValue { .bytes(self) }
}

extension SQLConvertible {
    /// Reads a type whose values are stored like those of another type.
    fileprivate init?<Written: SQLConvertible>(_ value: SQLValue, _ read: (Written) -> Self?) {
        guard let written = Written(sql: value), let result = read(written) else { return nil }
        self = result
    }
}

// A number out of range is converted to the nearest bound.

extension Int: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in Int(clamping: number) } }
    var sqlValue: SQLValue { .integer(Int64(self)) }
}

extension UInt64: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in UInt64(clamping: number) } }
    var sqlValue: SQLValue { .integer(Int64(clamping: self)) }
}

extension Bool: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in number != 0 } }
    var sqlValue: SQLValue { .integer(self ? 1 : 0) }
}

extension Date: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { Date(milliseconds: $0) } }
    var sqlValue: SQLValue { .integer(milliseconds) }
}

extension RandomID: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in RandomID(text) } }
    var sqlValue: SQLValue { .text(description) }
}

extension IPPrefix: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in try? IPPrefix(text) } }
    var sqlValue: SQLValue { .text(description) }
}

extension IPAddress: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in IPAddress(bytes: bytes) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension PublicKey: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in PublicKey(bytes: Array(bytes)) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension SecretHash: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in SecretHash(bytes: Array(bytes)) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension SQLConvertible where Self: RawRepresentable<String> {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in Self(rawValue: text) } }
    var sqlValue: SQLValue { .text(rawValue) }
}

extension Device.Kind: SQLConvertible {}
extension Token.Scope: SQLConvertible {}
extension AuditRecord.Action: SQLConvertible {}
extension AccessRule.Action: SQLConvertible {}
extension AccessRule.Direction: SQLConvertible {}
extension AccessRule.Transport: SQLConvertible {}
