// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem
import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A pin: the SHA-256 hash of a server's public key (SPKI). Its text is `sha256/` and Base64.
public struct ServerKeyPin: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// Makes a pin from 32 bytes; `nil` for any other number, and for 32 zeros.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 32, bytes.contains(where: { $0 != 0 }) else { return nil }
        self.bytes = bytes
    }

    /// Reads a pin from its text; `nil` for any other text.
    public init?(_ text: some StringProtocol) {
        guard text.hasPrefix("sha256/"), let key = PublicKey(base64: text.dropFirst(7)) else { return nil }
        self.init(bytes: key.bytes)
    }

    /// `sha256/` and the hash in Base64.
    public var description: String { "sha256/" + Data(bytes).base64EncodedString() }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let pin = ServerKeyPin(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "must be 'sha256/' and 32 bytes in Base64")
        }
        self = pin
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

/// The data that a device needs to enrol at a gateway: the gateway's address, the hashes of its keys, and a token for
/// one use.
///
/// The text of an invitation is one line, for a file, a message or a QR code. It must be kept as secret as the token in
/// it.
public struct Invitation: Sendable, Equatable {
    /// A DNS name or an IP address.
    public var host: String
    /// The port of the device API.
    public var port: UInt16
    /// The token.
    public var token: BearerSecret
    /// The time of its expiry.
    public var expires: Date
    /// The pins of the gateway's keys, active and backup: at least two different ones.
    public var pins: [ServerKeyPin]
    /// The gateway's display name.
    public var gateway: String?

    /// The prefix of the text.
    public static let prefix = "culvert-invitation:1:"
    /// The largest length of the text in bytes.
    public static let byteLimit = 4096

    /// Creates an invitation.
    /// - Throws: ``ContractError`` for an invalid host, port 0, a token that is neither an invitation nor an API token,
    ///   fewer than two pins, or two equal pins.
    public init(
        host: String, port: UInt16 = EnrolmentPath.defaultPort, token: BearerSecret, expires: Date,
        pins: [ServerKeyPin], gateway: String? = nil
    ) throws(ContractError) {
        let invitation = Invitation(
            unchecked: host, port: port, token: token, expires: expires, pins: pins, gateway: gateway)
        self = try Self.message.decode(Self.message.encode(invitation), .reply)
    }

    private init(
        unchecked host: String, port: UInt16, token: BearerSecret, expires: Date, pins: [ServerKeyPin],
        gateway: String?
    ) {
        self.host = host
        self.port = port
        self.token = token
        self.expires = expires
        self.pins = pins
        self.gateway = gateway
    }

    /// The members of the text. A later version can add members.
    private static let message = CompleteMessage<Invitation>(
        Invitation.init(unchecked:port:token:expires:pins:gateway:),
        TypedField("host", \.host, .host),
        TypedField("port", \.port, .integer(1...65_535)),
        TypedField("token", \.token, .secret(.invitation, .token)),
        TypedField("expires", \.expires, .seconds),
        TypedField("pins", \.pins, .list(of: .pin, count: 0...16)),
        TypedField("gateway", \.gateway, .optional(.line(0...64))),
        check: { (invitation) throws(ContractError) in try invitation.checkPins() })

    private func checkPins() throws(ContractError) {
        guard pins.count >= 2 else {
            throw ContractError(field: "pins", problem: "must be at least two: nothing is trusted on first use")
        }
        guard Set(pins).count == pins.count else {
            throw ContractError(field: "pins", problem: "must be different keys")
        }
    }

    /// Reads an invitation from a text with one line of it. Blank lines and lines that start with `#` are ignored.
    public init(_ text: some StringProtocol) throws(ContractError) {
        func fault(_ problem: String) -> ContractError { ContractError(field: "invitation", problem: problem) }
        let damage = fault("the line is damaged: copy all of it")
        guard text.utf8.count <= 2 * Self.byteLimit else { throw fault("is longer than an invitation") }
        let lines = text.split(whereSeparator: \.isNewline)
            .map { line in String(line.filter { $0 != "\u{feff}" }).trimmed }
            .filter { !$0.isEmpty && !$0.hasPrefix("#") }
        guard let line = lines.first else { throw fault("must not be empty") }
        guard lines.count == 1 else { throw fault("must be one line") }
        guard line.hasPrefix("culvert-invitation:") else {
            throw fault("does not begin with '\(Self.prefix)'")
        }
        guard line.hasPrefix(Self.prefix) else {
            throw fault("has a later version: update this program")
        }
        guard line.utf8.count <= Self.byteLimit,
            let bytes = Base64URL.decode(line.utf8.dropFirst(Self.prefix.utf8.count))
        else { throw damage }
        let json: JSON
        do throws(ContractError) {
            json = try JSON.read(contract: bytes)
        } catch {
            throw error.field == "body" ? damage : error
        }
        self = try Self.message.decode(json, .reply)
    }

    /// The line, for a file that only its owner may read. The memory of the text is not overwritten after use.
    public var exportedText: String {
        Self.prefix + String(decoding: Base64URL.encode(Self.message.encode(self).bytes), as: UTF8.self)
    }
}

extension ValueFormat where Value == Date {
    /// Seconds since 1970. Fractions are dropped.
    fileprivate static var seconds: ValueFormat<Date> {
        ValueFormat<Int64>.seconds(from: 1).map {
            Date(timeIntervalSince1970: Double($0))
        } _: {
            Int64(exactly: $0.timeIntervalSince1970.rounded(.down)) ?? 0
        }
    }
}

extension Invitation: CustomStringConvertible, CustomReflectable {
    /// The host and port, without the token.
    public var description: String { "(invitation to \(host):\(port))" }
    /// Shows nothing to `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension String {
    fileprivate var trimmed: String {
        var text = self[...]
        while let last = text.last, last.isWhitespace { text = text.dropLast() }
        return String(text.drop(while: \.isWhitespace))
    }
}
