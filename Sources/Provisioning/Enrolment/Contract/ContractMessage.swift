// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
package import TunnelSystem

/// A body of the enrolment API. Gateway and client write and read the same types.
///
/// Reading is strict: a field that is missing, of another kind or out of its range is an error that names it, and so is a
/// member that an object has twice. Members with
/// other names are refused in requests, and ignored in replies, which may have more one day.
public protocol ContractMessage: Codable, Equatable, Sendable {
    /// The declaration of the message's members.
    static var message: CompleteMessage<Self> { get }
    /// Whether this is a request, which must not have members with other names.
    static var isRequest: Bool { get }
}

extension ContractMessage {
    /// False: the message is a reply.
    public static var isRequest: Bool { false }

    private static var form: MessageForm { isRequest ? .create : .reply }

    /// The schema of the message.
    package static var schema: JSONSchema { message.schema(form) }

    /// Reads the message.
    /// - Throws: ``ContractError`` for the first member that is unknown in a request, not valid or missing.
    package init(_ json: JSON) throws(ContractError) { self = try Self.message.decode(json, Self.form) }

    /// Reads the message.
    /// - Throws: ``ContractError``.
    public init(json: JSONValue) throws(ContractError) { try self.init(json.ordered) }

    /// The message as JSON.
    public var json: JSONValue { JSONValue(Self.message.encode(self)) }

    /// Reads a body of HTTP.
    /// - Throws: ``ContractError``.
    public init(body: [UInt8]) throws(ContractError) { try self.init(try JSON.read(contract: body)) }

    /// A body of HTTP: one line, names in alphabetic order.
    public var body: [UInt8] { Self.message.encode(self).bytes }

    /// Decodes the message.
    /// - Throws: ``ContractError``.
    public init(from decoder: any Decoder) throws { try self.init(json: try JSONValue(from: decoder)) }

    /// Encodes the message.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}
