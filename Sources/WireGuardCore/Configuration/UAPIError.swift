// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The result of a UAPI request that failed, as the `errno` at the end of a reply. The numbers are those of the
/// operating system.
public enum UAPIErrno: Hashable, Sendable, CaseIterable {
    /// `EPERM`: not permitted.
    case notPermitted
    /// `ENOENT`: not found.
    case notFound
    /// `EIO`: reading or writing failed.
    case inputOutput
    /// `ENOMEM`: out of memory, or above a fixed limit.
    case outOfMemory
    /// `ENODEV`: the interface was removed.
    case noDevice
    /// `EINVAL`: a key is unknown or its value is malformed.
    case invalid
    /// `EPROTO`: the text violates the protocol.
    case protocolError
    /// `EADDRINUSE`: another socket has the listen port.
    case addressInUse
    /// `EADDRNOTAVAIL`: the host does not have the address.
    case addressNotAvailable
}

/// The kind of a UAPI request.
public enum UAPIOperationKind: Hashable, Sendable {
    /// `get=1`: requests the state.
    case get
    /// `set=1`: change the state.
    case set
    /// Any other kind.
    case unknown
}

/// The error of a UAPI request that cannot be executed, with its position in the request. It never contains a key.
public struct UAPIError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The number in the reply.
    public let errno: UAPIErrno
    /// The kind of request.
    public let operation: UAPIOperationKind
    /// The line within the request, counted from 1.
    public let line: Int
    /// The line without its secrets, shortened if long.
    public let text: String
    /// The reason, as a clause without capital or full stop.
    public let reason: String
    /// The remedy.
    public let fix: String

    /// The line's number, reason and fix.
    public var description: String { "line \(line): \(reason)\n    \(text)\n    fix: \(fix)" }
}

// MARK: - Replies

/// The end of a reply: `errno=N` and a blank line.
public enum UAPIReply {
    /// Appends the end of a reply.
    ///
    /// `wg` expects a positive error number after `get` and a negative one after `set`, and prints a meaningless
    /// message for the other sign.
    /// - Parameters:
    ///   - errno: The error; `nil` for success.
    ///   - operation: The kind of the request.
    ///   - text: The reply so far.
    public static func append(_ errno: UAPIErrno?, answering operation: UAPIOperationKind, to text: inout [UInt8]) {
        for byte in "errno=".utf8 { text.append(byte) }
        if errno != nil, operation != .get { text.append(UInt8(ascii: "-")) }
        ASCII.appendDecimal(UInt64(clamping: errno?.number ?? 0), to: &text)
        text.append(ASCII.newline)
        text.append(ASCII.newline)
    }

    /// Returns a complete reply that contains only the result of the request.
    public static func status(_ errno: UAPIErrno?, answering operation: UAPIOperationKind) -> [UInt8] {
        var text: [UInt8] = []
        append(errno, answering: operation, to: &text)
        return text
    }

    /// Returns the number after `errno=` in a complete reply, without its sign; `nil` if there is none or the reply is
    /// incomplete.
    public static func errno(in reply: [UInt8]) -> Int32? {
        guard reply.suffix(2) == [ASCII.newline, ASCII.newline] else { return nil }
        let line = reply.dropLast(2).split(separator: ASCII.newline, omittingEmptySubsequences: false).last ?? []
        guard line.starts(with: "errno=".utf8) else { return nil }
        var digits = line.dropFirst(6)
        if digits.first == UInt8(ascii: "-") { digits.removeFirst() }
        guard case .value(let number) = ASCII.unsigned(digits.span, limit: UInt64(Int32.max)) else { return nil }
        return Int32(truncatingIfNeeded: number)
    }
}
