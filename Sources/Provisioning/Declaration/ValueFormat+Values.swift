// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel
import TunnelSystem
package import WireGuardCore

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

extension ValueFormat where Value == String {
    /// One line of text without control characters.
    /// - Parameter length: The number of characters.
    package static func line(_ length: ClosedRange<Int>) -> ValueFormat {
        ValueFormat(.line(length)) { (value) throws(ContractError) in
            try value.label(length)
        } text: {
            $0
        }
    }
}

extension ValueFormat where Value: FixedWidthInteger {
    /// A number that is not negative.
    package static var count: ValueFormat { integer(0...Int64.max) }

    package static func integer(_ range: ClosedRange<Int64>) -> ValueFormat {
        ValueFormat(.integer(range)) { (json, field) throws(ContractError) in
            let number = try ContractValue(json: JSONValue(json), field: field).integer(range)
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
            try ContractValue(json: JSONValue(json), field: field).flag()
        } encode: {
            .bool($0)
        }
    }
}

extension ValueFormat where Value == RandomID {
    package static var id: ValueFormat {
        ValueFormat(.id) { (value) throws(ContractError) in
            try value.id()
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value == Date {
    /// A time in UTC (RFC 3339), to the second.
    package static var time: ValueFormat<Date> {
        ValueFormat(.time) { (value) throws(ContractError) in
            try value.time()
        } text: {
            $0.formatted(.iso8601)
        }
    }
}

extension ValueFormat where Value == PublicKey {
    package static var key: ValueFormat<PublicKey> {
        ValueFormat(.key) { (value) throws(ContractError) in
            try value.publicKey()
        } text: {
            $0.base64
        }
    }
}

extension ValueFormat where Value == IPAddress {
    package static var address: ValueFormat<IPAddress> {
        ValueFormat(.address) { (value) throws(ContractError) in
            try value.address()
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value == IPPrefix {
    package static var network: ValueFormat<IPPrefix> {
        ValueFormat(.prefix) { (value) throws(ContractError) in
            try value.prefix()
        } text: {
            $0.description
        }
    }
}

extension ValueFormat where Value == ClosedRange<UInt16> {
    /// `443`, or `8000-8100`.
    package static var ports: ValueFormat {
        ValueFormat(.ports) { (value) throws(ContractError) in
            let parts = try value.text().split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count <= 2, let first = parts.first.flatMap({ UInt16($0) }), first > 0,
                let last = parts.last.flatMap({ UInt16($0) }), first <= last,
                parts.allSatisfy({ part in part.utf8.allSatisfy { (48...57).contains($0) } && !part.hasPrefix("0") })
            else { throw value.error("it is no port such as 443, and no range such as 8000-8100") }
            return first...last
        } text: {
            $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)"
        }
    }
}
