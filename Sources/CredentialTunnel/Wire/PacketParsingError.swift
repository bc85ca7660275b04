// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of bytes that are not a message of the protocol, or of a body that cannot be sent. No error shows a password.
public enum PacketParsingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// There are fewer bytes than a header has.
    case truncated(byteCount: Int)
    /// No packet has this code.
    case unknownCode(UInt8)
    /// The datagram has another version of the protocol.
    case unknownVersion(UInt8)
    /// The third or fourth byte is not zero.
    case reservedBytes
    /// A packet of this code has another length.
    case wrongLength(PacketCode, byteCount: Int)
    /// The body's JSON has more bytes than one datagram is sure to carry.
    case bodyTooLong(byteCount: Int)
    /// The body is not the JSON that it should be.
    case notJSON(String)
    /// A field of the body is outside of its bounds.
    case outOfBounds(field: String, problem: String)

    /// The error, in one line.
    public var description: String {
        switch self {
        case .truncated(let count): "\(count) bytes are fewer than a header has"
        case .unknownCode(let code): "the first byte is \(code), which is not a packet code"
        case .unknownVersion(let version): "version \(version) of the protocol is unknown; this is \(Header.version)"
        case .reservedBytes: "the third and fourth byte are not zero"
        case .wrongLength(let code, let count): "\(count) bytes are not a valid \(code), which has \(code.lengths)"
        case .bodyTooLong(let count): "the body has \(count) bytes; at most \(Body.maximumByteCount) fit in a datagram"
        case .notJSON(let problem): "the body is not the expected JSON: \(problem)"
        case .outOfBounds(let field, let problem): "'\(field)' \(problem)"
        }
    }
}
