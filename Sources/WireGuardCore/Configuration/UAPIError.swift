// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The reason for a failed UAPI request, as the `errno` at the end of a reply. The numbers are the operating system's.
public enum UAPIErrno: Hashable, Sendable, CaseIterable {
    /// `EPERM`: not permitted.
    case notPermitted
    /// `ENOENT`: there is no such thing.
    case notFound
    /// `EIO`: reading or writing failed.
    case inputOutput
    /// `ENOMEM`: out of memory, or over a fixed budget.
    case outOfMemory
    /// `ENODEV`: the interface was removed.
    case noDevice
    /// `EINVAL`: a key is unknown or its value is malformed.
    case invalid
    /// `EPROTO`: the text is not in the form of the protocol.
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
    /// Something else.
    case unknown
}

/// A UAPI request that cannot be carried out, and where in it the fault is. Keys never appear in it.
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
    /// `wg` reads the number's sign differently for the two operations: it expects a positive error after `get` and a
    /// negative one after `set`, and says nonsense about the other sign.
    /// - Parameters:
    ///   - errno: The error; `nil` for success.
    ///   - operation: The kind of request that is answered.
    ///   - text: The reply so far.
    public static func append(_ errno: UAPIErrno?, answering operation: UAPIOperationKind, to text: inout [UInt8]) {
        for byte in "errno=".utf8 { text.append(byte) }
        if errno != nil, operation != .get { text.append(UInt8(ascii: "-")) }
        ASCII.appendDecimal(UInt64(clamping: errno?.number ?? 0), to: &text)
        text.append(ASCII.newline)
        text.append(ASCII.newline)
    }

    /// A whole reply that contains only the result of the request.
    public static func status(_ errno: UAPIErrno?, answering operation: UAPIOperationKind) -> [UInt8] {
        var text: [UInt8] = []
        append(errno, answering: operation, to: &text)
        return text
    }

    /// The number after `errno=` in a complete reply, sign removed; `nil` if the reply has none or is not complete.
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
