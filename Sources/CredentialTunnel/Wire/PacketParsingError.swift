// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The error of bytes that are not a message of the protocol, or of a body that cannot be sent. It contains no
/// password.
public enum PacketParsingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The datagram is shorter than a header.
    case truncated(byteCount: Int)
    /// The code is not known.
    case unknownCode(UInt8)
    /// The datagram has another version of the protocol.
    case unknownVersion(UInt8)
    /// The third or fourth byte is not zero.
    case reservedBytes
    /// The length is not valid for this code.
    case wrongLength(PacketCode, byteCount: Int)
    /// The body's JSON exceeds the size that fits into a datagram on every path.
    case bodyTooLong(byteCount: Int)
    /// The body is not the expected JSON.
    case notJSON(String)
    /// A field of the body is outside of its bounds.
    case outOfBounds(field: String, problem: String)
    /// Datagrams with this code are not sealed.
    case notSealed(PacketCode)
    /// The datagram was changed, or was sealed with other keys or for another session.
    case notAuthentic

    /// The problem, in one line.
    public var description: String {
        switch self {
        case .truncated(let count): "\(count) bytes are shorter than a header"
        case .unknownCode(let code): "the first byte, \(code), is not a packet code"
        case .unknownVersion(let version): "version \(version) of the protocol is unknown; this is \(Header.version)"
        case .reservedBytes: "the third and fourth byte must be zero"
        case .wrongLength(let code, let count): "\(code) must have \(code.lengths) bytes, not \(count)"
        case .bodyTooLong(let count): "the body must not exceed \(Body.maximumByteCount) bytes, but has \(count)"
        case .notJSON(let problem): "the body is not the expected JSON: \(problem)"
        case .outOfBounds(let field, let problem): "'\(field)' \(problem)"
        case .notSealed(let code): "a datagram with the code \(code) is not sealed"
        case .notAuthentic: "the datagram was changed, or was sealed with other keys or for another session"
        }
    }
}
