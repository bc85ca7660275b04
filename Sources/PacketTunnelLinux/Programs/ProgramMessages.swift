// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import TunnelSystem

/// A request from a process that may not start programs to the process that may. Other requests are refused.
enum ProgramRequest: Codable, Sendable {
    /// Run a program of the system with arguments of a known form. The bytes are its standard input.
    case system(SystemProgramCall)
    /// Run one of the commands in the scope, given by its position. The bytes are its standard input.
    case command(Int, seconds: Int, outputLimit: Int)
    /// Read the file that describes the tunnel.
    case file
    /// End the running command. There is no reply.
    case cancel

    /// Whether the request can be executed twice. A command of the user cannot.
    var isRepeatable: Bool {
        switch self {
        case .system, .file: true
        case .command, .cancel: false
        }
    }
}

/// The result of a request. The bytes are the program's output or the file's contents.
enum ProgramReply: Codable, Sendable {
    case ended(status: Int32)
    case timedOut
    case interrupted
    case notStarted(errno: Int32)
    /// The request is not permitted.
    case refused(String)
    case file(ProgramFile)
}

/// The programs, commands and file that the process may use, fixed at its start.
package struct ProgramScope: Codable, Sendable, Equatable {
    /// A program with its arguments and its environment.
    package struct Command: Codable, Sendable, Equatable {
        package var program: String
        package var arguments: [String]
        package var environment: [String]

        package init(_ program: String, arguments: [String], environment: [String]) {
            self.program = program
            self.arguments = arguments
            self.environment = environment
        }
    }

    /// The name of the tunnel and its interface.
    package var tunnel: String
    package var commands: [Command]
    /// A file that the server reads for the other process, which may lack permission.
    package var file: String?
    /// Whether the other process needs a port below 1024.
    package var bindsLowPort: Bool

    package init(tunnel: String, commands: [Command], file: String?, bindsLowPort: Bool) {
        self.tunnel = tunnel
        self.commands = commands
        self.file = file
        self.bindsLowPort = bindsLowPort
    }

    /// The maximum length of its text in bytes.
    static let mostBytes = 1 << 24

    /// Decodes the text of a scope. Returns `nil` if it is incomplete.
    init?(text: [UInt8]) {
        guard let scope = try? JSONDecoder().decode(ProgramScope.self, from: Data(text)) else { return nil }
        self = scope
    }

    /// The scope as text.
    /// - Throws: `EINVAL` if a text in it is not valid.
    func text() throws(SystemError) -> [UInt8] {
        guard let text = try? JSONEncoder().encode(self) else { throw SystemError("encode", errno: EINVAL) }
        return Array(text)
    }
}

/// The contents and attributes of a file.
package struct ProgramFile: Codable, Sendable {
    /// The error of reading it, or 0.
    package var errno: Int32
    package var owner: UInt32
    package var mode: UInt32
    package var isRegular: Bool
}

/// A request with the number that its answer repeats.
struct NumberedRequest: Codable, Sendable {
    /// The request's number on its socket, counted from 1; for ``ProgramRequest/cancel`` the number of the request that it ends.
    var number: UInt64
    /// The time on `LaneClock` when the client gives up. The server does not execute a request that it reads later.
    var deadline: Int64
    var request: ProgramRequest
}

/// The answer to the request with the same number.
struct NumberedReply: Codable, Sendable {
    var number: UInt64
    var reply: ProgramReply
}

/// The message format on a stream socket: two lengths, a JSON header and bytes. The lengths are limited.
enum ProgramFrame {
    static let mostHeaderBytes = 1 << 20
    static let mostBytes = 1 << 25

    /// The bytes of the two lengths.
    private static let lengthsByteCount = 8

    /// Encodes a message; `nil` if it is too long.
    static func encode(_ header: some Encodable, _ bytes: [UInt8]) -> [UInt8]? {
        guard let text = try? JSONEncoder().encode(header), text.count <= mostHeaderBytes, bytes.count <= mostBytes
        else {
            return nil
        }
        var frame: [UInt8] = []
        frame.reserveCapacity(lengthsByteCount + text.count + bytes.count)
        for length in [text.count, bytes.count] {
            for shift in [0, 8, 16, 24] { frame.append(UInt8(truncatingIfNeeded: length >> shift)) }
        }
        frame += text
        frame += bytes
        return frame
    }

    /// Sends a message. Waits while the other side does not read.
    /// - Returns: `false` if the other side closed the socket or the message is too long.
    static func send(_ header: some Encodable, _ bytes: [UInt8], to descriptor: Int32) -> Bool {
        encode(header, bytes).map { SystemCall.writeAll(descriptor, $0) } ?? false
    }

    /// The first message in the received bytes.
    enum Parsed<Header> {
        /// A message, and its length in bytes.
        case message(Header, [UInt8], byteCount: Int)
        case incomplete
        case malformed
    }

    /// Reads the first message in `received`.
    static func parse<Header: Decodable>(_ type: Header.Type, _ received: [UInt8]) -> Parsed<Header> {
        guard received.count >= lengthsByteCount else { return .incomplete }
        guard let (headerLength, byteCount) = lengths(received) else { return .malformed }
        let start = lengthsByteCount + headerLength
        guard received.count >= start + byteCount else { return .incomplete }
        guard let header = try? JSONDecoder().decode(type, from: Data(received[lengthsByteCount..<start])) else {
            return .malformed
        }
        return .message(header, Array(received[start..<start + byteCount]), byteCount: start + byteCount)
    }

    /// Reads the lengths at the start of a message; `nil` if one exceeds its limit.
    private static func lengths(_ bytes: [UInt8]) -> (header: Int, bytes: Int)? {
        func length(_ start: Int) -> Int {
            (0..<4).reduce(0) { $0 | Int(bytes[start + $1]) << (8 * $1) }
        }
        let (headerLength, byteCount) = (length(0), length(4))
        guard headerLength <= mostHeaderBytes, byteCount <= mostBytes else { return nil }
        return (headerLength, byteCount)
    }

    /// Receives the next message. Returns `nil` if the other side has ended or sent a malformed message.
    static func receive<Header: Decodable>(_ type: Header.Type, from descriptor: Int32) -> (Header, [UInt8])? {
        guard let first = read(lengthsByteCount, from: descriptor), let (headerLength, byteCount) = lengths(first),
            let text = read(headerLength, from: descriptor), let bytes = read(byteCount, from: descriptor),
            let header = try? JSONDecoder().decode(type, from: Data(text))
        else { return nil }
        return (header, bytes)
    }

    private static func read(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let taken = unsafe bytes.withUnsafeMutableBytes { raw in
                unsafe SystemCall.read(descriptor, into: UnsafeMutableRawBufferPointer(rebasing: raw[filled...]))
            }
            guard taken > 0 else { return nil }
            filled += taken
        }
        return bytes
    }
}
