// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A body of the enrolment API. Gateway and client write and read the same types.
///
/// Reading is strict: a field that is missing, of another kind or out of its range is an error that names it, and so is a
/// member that an object has twice. Members with
/// other names are refused in requests, and ignored in replies, which may have more one day.
public protocol ContractMessage: Codable, Equatable, Sendable {
    /// Reads the message.
    init(json: JSONValue) throws(ContractError)
    /// The message as JSON.
    var json: JSONValue { get }
}

extension ContractMessage {
    /// Reads a body of HTTP.
    public init(body: [UInt8]) throws(ContractError) {
        try self.init(json: JSONValue(try JSON.read(contract: body)))
    }

    /// A body of HTTP: one line, names in alphabetic order.
    public var body: [UInt8] {
        // Only infinity and NaN cannot be written as JSON, and no field is a floating-point number.
        (try? json.text()) ?? []
    }

    /// Decodes the message.
    /// - Throws: ``ContractError``.
    public init(from decoder: any Decoder) throws { try self.init(json: JSONValue(from: decoder)) }

    /// Encodes the message.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}
