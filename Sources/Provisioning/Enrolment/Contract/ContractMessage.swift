// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
package import TunnelSystem

/// A body of the enrolment API. Gateway and client use the same types.
///
/// Decoding is strict: a field that is missing, has another type or is out of range, and a member that an object
/// contains twice, cause an error that names the field. Members with other names are refused in requests and ignored in
/// replies, because a later version may add members to replies.
public protocol ContractMessage: Codable, Equatable, Sendable {
    /// The declaration of the message's members.
    static var message: CompleteMessage<Self> { get }
    /// Whether this is a request, which must not contain other members.
    static var isRequest: Bool { get }
}

extension ContractMessage {
    /// `false`: the message is a reply.
    public static var isRequest: Bool { false }

    private static var form: MessageForm { isRequest ? .create : .reply }

    /// The schema of the message.
    package static var schema: JSONSchema { message.schema(form) }

    /// Decodes the message.
    /// - Throws: ``ContractError`` for the first member that is unknown in a request, not valid or missing.
    package init(_ json: JSON) throws(ContractError) { self = try Self.message.decode(json, Self.form) }

    /// Decodes the message.
    /// - Throws: ``ContractError``.
    public init(json: JSONValue) throws(ContractError) { try self.init(json.ordered) }

    /// The message as JSON.
    public var json: JSONValue { JSONValue(Self.message.encode(self)) }

    /// Decodes an HTTP body.
    /// - Throws: ``ContractError``.
    public init(body: [UInt8]) throws(ContractError) { try self.init(try JSON.read(contract: body)) }

    /// The HTTP body: one line, with names in alphabetical order.
    public var body: [UInt8] { Self.message.encode(self).bytes }

    /// Decodes the message.
    /// - Throws: ``ContractError``.
    public init(from decoder: any Decoder) throws { try self.init(json: try JSONValue(from: decoder)) }

    /// Encodes the message.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}
