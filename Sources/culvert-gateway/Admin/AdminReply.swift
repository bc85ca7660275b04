// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import TunnelSystem

/// Reads one HTTP/1.1 reply from a connection. A body that ends before its end by `Content-Length` or by its chunked coding
/// (RFC 9112 section 6) is an error.
struct AdminReply {
    /// The rest of the body.
    private enum Body {
        /// The missing bytes of the body.
        case bytes(Int)
        /// The missing bytes of the current chunk, in the chunked coding.
        case chunked(Int)
        case finished
    }

    let status: Int
    private let connection: SharedDescriptor
    private var input: Input
    private var body = Body.finished

    /// The received bytes that are not used yet.
    private struct Input {
        private var bytes: [UInt8] = []
        private var start = 0
        private static let size = 1 << 18
        /// The most bytes of a line.
        private static let lineLimit = 1 << 16

        /// Waits for bytes if there are none.
        private mutating func fill(_ connection: Int32) throws(CommandFailure) {
            guard start == bytes.count else { return }
            bytes = [UInt8](repeating: 0, count: Self.size)
            let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(connection, into: $0) }
            let error = errno
            (bytes, start) = (Array(bytes.prefix(max(count, 0))), 0)
            guard count >= 0 else {
                throw CommandFailure("the gateway does not answer: \(SystemError.words(error))")
            }
            guard count > 0 else { throw CommandFailure("the gateway's answer is truncated", fix: AdminReply.advice) }
        }

        /// The next bytes, at least one of them.
        mutating func next(_ most: Int, _ connection: Int32) throws(CommandFailure) -> [UInt8] {
            try fill(connection)
            let part = bytes[start...].prefix(most)
            start += part.count
            return Array(part)
        }

        /// The next line without its end.
        mutating func line(_ connection: Int32) throws(CommandFailure) -> String {
            var line: [UInt8] = []
            while true {
                try fill(connection)
                let part = bytes[start...].prefix { $0 != UInt8(ascii: "\n") }
                start += part.count
                line += part
                guard line.count <= Self.lineLimit else { throw AdminReply.notHTTP }
                guard start < bytes.count else { continue }
                start += 1
                guard line.last == UInt8(ascii: "\r"), let text = String(validating: line.dropLast(), as: UTF8.self)
                else { throw AdminReply.notHTTP }
                return text
            }
        }
    }

    private static let notHTTP = CommandFailure("the gateway's answer is not valid HTTP")
    private static let advice = "see the gateway's log, and try again"

    /// Reads the head of the reply.
    init(reading connection: SharedDescriptor) throws(CommandFailure) {
        var input = Input()
        let words = try input.line(connection.number).split(separator: " ")
        guard words.count >= 2, words[0] == "HTTP/1.1", let status = Int(words[1]) else { throw Self.notHTTP }
        var (length, isChunked): (Int?, Bool) = (nil, false)
        while true {
            let line = try input.line(connection.number)
            guard !line.isEmpty else { break }
            guard let colon = line.firstIndex(of: ":") else { throw Self.notHTTP }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            switch line[..<colon].lowercased() {
            case "content-length":
                guard let number = Int(value), number >= 0 else { throw Self.notHTTP }
                length = number
            case "transfer-encoding":
                guard value.lowercased() == "chunked" else { throw Self.notHTTP }
                isChunked = true
            default: break
            }
        }
        // Status 204 has no body.
        guard isChunked || length != nil || status == 204 else { throw Self.notHTTP }
        self.status = status
        self.input = input
        self.connection = connection
        body = isChunked ? .chunked(0) : .bytes(length ?? 0)
        if isChunked { try beginChunk() } else if length ?? 0 == 0 { body = .finished }
    }

    /// Returns the next bytes of the body; `nil` after its end.
    mutating func next() throws(CommandFailure) -> [UInt8]? {
        switch body {
        case .finished: return nil
        case .bytes(let missing):
            let part = try input.next(missing, connection.number)
            body = part.count == missing ? .finished : .bytes(missing - part.count)
            return part
        case .chunked(let missing):
            let part = try input.next(missing, connection.number)
            body = .chunked(missing - part.count)
            if part.count == missing {
                guard try input.line(connection.number).isEmpty else { throw Self.notHTTP }
                try beginChunk()
            }
            return part
        }
    }

    /// Reads the size of the next chunk. The chunk of size 0 is the end, after fields that are not used.
    private mutating func beginChunk() throws(CommandFailure) {
        let text = try input.line(connection.number).prefix { $0 != ";" }
        guard let size = Int(text, radix: 16), size >= 0 else { throw Self.notHTTP }
        body = .chunked(size)
        guard size == 0 else { return }
        while try !input.line(connection.number).isEmpty {}
        body = .finished
    }

    /// Returns the whole body.
    mutating func bytes(limit: Int = 1 << 26) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        while let part = try next() {
            bytes += part
            guard bytes.count <= limit else { throw CommandFailure("the gateway's answer is too large") }
        }
        return bytes
    }
}
