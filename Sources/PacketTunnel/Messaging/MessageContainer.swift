// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A message between the two processes, with its name, its version and the number of its request.
///
/// All integers are big-endian. The payload is the message as JSON.
///
/// | Offset | Bytes | Field |
/// |---|---|---|
/// | 0 | 4 | `CVTM` |
/// | 4 | 1 | version of this format: 1 |
/// | 5 | 1 | ``Kind-swift.enum`` |
/// | 6 | 2 | version of the message |
/// | 8 | 8 | correlation: the number of the request, repeated in its reply |
/// | 16 | 2 | length of the name, 1 to 255 |
/// | 18 | 4 | length of the payload |
/// | 22 | | name, then payload, and nothing after it |
public struct MessageContainer: Hashable, Sendable {
    /// The content of a container.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// A message that requires one reply.
        case request = 1
        /// The reply.
        case reply = 2
        /// The reason for a missing reply, or for the end of elements.
        case error = 3
        /// A request for elements.
        case subscribe = 4
        /// One element.
        case element = 5
        /// The end of the elements.
        case end = 6
        /// A request for the next element, over a channel with one answer per request. The request and its answer have
        /// the number of the subscription's request. The answer is an element, the end, an error, or a reply without
        /// payload if there is no element yet.
        case take = 7
        /// The subscriber ends the subscription.
        case leave = 8

        /// Whether the container must be answered.
        var isAnswered: Bool {
            switch self {
            case .request, .subscribe, .take, .leave: true
            case .reply, .error, .element, .end: false
            }
        }
    }

    /// Its content.
    public var kind: Kind
    /// The registered name of the message.
    public var name: String
    /// The version of the message.
    public var version: UInt16
    /// The number of the request, chosen by its sender; 0 in an error about a request that could not be decoded.
    public var correlation: UInt64
    /// The message, reply, element or error as JSON; empty at the end of a subscription.
    public var payload: [UInt8]

    /// The version of the format.
    public static let formatVersion: UInt8 = 1
    /// The length of what precedes the name.
    public static let headerByteCount = 22
    /// The default size limit of both sides: 1 MiB, with header and name.
    public static let defaultMaximumByteCount = 1 << 20

    /// The size limit of messages between the processes of one machine's tunnel: 32 MiB, enough for 20,000 peers with
    /// 130,000 networks.
    package static let localMaximumByteCount = 32 << 20

    private static let magic: [UInt8] = [0x43, 0x56, 0x54, 0x4d]

    /// A container.
    public init(kind: Kind, name: String, version: UInt16, correlation: UInt64, payload: [UInt8]) {
        self.kind = kind
        self.name = name
        self.version = version
        self.correlation = correlation
        self.payload = payload
    }

    /// The bytes to send.
    /// - Throws: `.invalidName`, or `.tooLarge` when they would be more than `limit`.
    public func encoded(limit: Int = defaultMaximumByteCount) throws(MessageContainerError) -> [UInt8] {
        guard Self.isValidName(name) else { throw .invalidName }
        let byteCount = Self.headerByteCount + name.utf8.count + payload.count
        guard byteCount <= limit, let payloadCount = UInt32(exactly: payload.count) else {
            throw .tooLarge(byteCount: byteCount, limit: limit)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        bytes += Self.magic
        bytes.append(Self.formatVersion)
        bytes.append(kind.rawValue)
        bytes.appendBigEndian(version)
        bytes.appendBigEndian(correlation)
        bytes.appendBigEndian(UInt16(truncatingIfNeeded: name.utf8.count))
        bytes.appendBigEndian(payloadCount)
        bytes += name.utf8
        bytes += payload
        return bytes
    }

    /// Decodes a container. It handles every byte sequence: the result is a container or an error.
    /// - Throws: The error in `bytes`.
    public init(decoding bytes: [UInt8], limit: Int = defaultMaximumByteCount) throws(MessageContainerError) {
        guard bytes.count <= limit else { throw .tooLarge(byteCount: bytes.count, limit: limit) }
        guard bytes.count >= Self.headerByteCount else { throw .truncated(byteCount: bytes.count) }
        guard bytes.starts(with: Self.magic) else { throw .notAMessage }
        guard bytes[4] == Self.formatVersion else { throw .unsupportedFormat(bytes[4]) }
        guard let kind = Kind(rawValue: bytes[5]) else { throw .unknownKind(bytes[5]) }
        let nameCount = Int(bytes.bigEndian(UInt16.self, at: 16))
        let payloadCount = Int(bytes.bigEndian(UInt32.self, at: 18))
        let expected = Self.headerByteCount + nameCount + payloadCount
        guard bytes.count == expected else { throw .lengthMismatch(stated: expected, actual: bytes.count) }
        let nameEnd = Self.headerByteCount + nameCount
        let name = String(decoding: bytes[Self.headerByteCount..<nameEnd], as: UTF8.self)
        guard Self.isValidName(name) else { throw .invalidName }
        self.init(
            kind: kind, name: name, version: bytes.bigEndian(UInt16.self, at: 6),
            correlation: bytes.bigEndian(UInt64.self, at: 8), payload: Array(bytes[nameEnd...]))
    }

    /// Returns the name in bytes that begin with a container's header, without checking the rest; `nil` for other
    /// bytes.
    static func name(in bytes: [UInt8]) -> String? {
        guard bytes.count > headerByteCount, bytes.starts(with: magic), bytes[4] == formatVersion else { return nil }
        let end = headerByteCount + Int(bytes.bigEndian(UInt16.self, at: 16))
        guard bytes.count >= end else { return nil }
        return String(decoding: bytes[headerByteCount..<end], as: UTF8.self)
    }

    /// Whether messages can be registered under `name`.
    public static func isValidName(_ name: String) -> Bool {
        (1...255).contains(name.utf8.count) && name.utf8.allSatisfy(isNameByte)
    }

    /// Whether a name may contain this byte.
    static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

/// The error of bytes that are not a ``MessageContainer``, or of a container that cannot be sent.
public enum MessageContainerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The bytes end within the header.
    case truncated(byteCount: Int)
    /// The bytes do not begin with `CVTM`.
    case notAMessage
    /// The version of the format is not supported.
    case unsupportedFormat(UInt8)
    /// The kind is unknown.
    case unknownKind(UInt8)
    /// The name is empty, too long, or contains a character that is not permitted.
    case invalidName
    /// The lengths in the header do not match the number of bytes.
    case lengthMismatch(stated: Int, actual: Int)
    /// The container exceeds the size limit.
    case tooLarge(byteCount: Int, limit: Int)

    /// The description of the error, with its numbers.
    public var description: String {
        switch self {
        case .truncated(let byteCount): "\(byteCount) bytes are too few for a message"
        case .notAMessage: "the bytes are not a message"
        case .unsupportedFormat(let version): "message format version \(version) is not supported"
        case .unknownKind(let kind): "message kind \(kind) is not known"
        case .invalidName: "the message's name is not valid"
        case .lengthMismatch(let stated, let actual): "the message states \(stated) bytes and has \(actual)"
        case .tooLarge(let byteCount, let limit): "\(byteCount) bytes are more than the limit of \(limit)"
        }
    }
}

extension [UInt8] {
    /// Appends an integer, the most significant byte first.
    mutating func appendBigEndian<Integer: FixedWidthInteger & UnsignedInteger>(_ value: Integer) {
        for shift in stride(from: Integer.bitWidth - 8, through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: value >> Integer(truncatingIfNeeded: shift)))
        }
    }

    /// The integer at `offset`, most significant byte first; the caller must have checked the bounds.
    func bigEndian<Integer: FixedWidthInteger & UnsignedInteger>(_ type: Integer.Type, at offset: Int) -> Integer {
        var value: Integer = 0
        for byte in self[offset..<offset + Integer.bitWidth / 8] { value = value << 8 | Integer(byte) }
        return value
    }
}

/// Messages as JSON.
enum MessageCoding {
    /// The JSON of `value`.
    static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(value))
    }

    /// The value in `bytes`.
    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }
}
