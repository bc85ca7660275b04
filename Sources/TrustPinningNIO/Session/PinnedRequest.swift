// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NIOCore
public import NIOHTTP1

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A request over HTTPS.
public struct PinnedRequest: Sendable {
    /// Where it goes: `https`, without user and password. What comes after `#` is not sent.
    public var url: URL
    /// What is asked for.
    public var method: HTTPMethod
    /// Header fields. `Host`, and those that say where the body ends or whether the connection stays, are the session's.
    public var headers: HTTPHeaders
    /// What is sent with it.
    public var body: Body
    /// Whether to wait, for a second at most, for the server's word that it wants the body (RFC 9110, section 10.1.1).
    public var expectsContinue = false
    /// How long that word is waited for.
    var continueTimeout = TimeAmount.seconds(1)
    /// The longest that all of it may take, instead of the session's.
    public var timeout: Duration?

    /// A request.
    public init(
        url: URL, method: HTTPMethod = .GET, headers: HTTPHeaders = HTTPHeaders(), body: Body = .none
    ) {
        self.url = url
        self.method = method
        self.headers = headers
        self.body = body
    }

    /// The body of a request.
    public struct Body: Sendable {
        enum Source: Sendable {
            case none
            case bytes(ByteBuffer)
            case stream(length: Int?, @Sendable (BodyWriter) async throws -> Void)
        }

        let source: Source

        /// No body.
        public static let none = Body(source: .none)

        /// These bytes. They can be sent again after a redirect or on another connection.
        public static func bytes(_ bytes: some Sequence<UInt8>) -> Body {
            Body(source: .bytes(ByteBuffer(bytes: bytes)))
        }

        /// These bytes. They can be sent again after a redirect or on another connection.
        public static func buffer(_ buffer: ByteBuffer) -> Body { Body(source: .bytes(buffer)) }

        /// The chunks of a sequence, sent as they come and no faster than the server takes them.
        /// - Parameters:
        ///   - chunks: the sequence.
        ///   - length: the number of bytes where it is known; chunked transfer coding otherwise.
        public static func stream<Chunks: AsyncSequence & Sendable>(_ chunks: Chunks, length: Int? = nil) -> Body
        where Chunks.Element == ByteBuffer {
            stream(length: length) { writer in
                for try await chunk in chunks { try await writer.write(chunk) }
            }
        }

        /// What `produce` writes. Returning ends the body.
        /// - Parameters:
        ///   - length: the number of bytes where it is known; chunked transfer coding otherwise.
        ///   - produce: writes the body.
        public static func stream(
            length: Int? = nil, _ produce: @escaping @Sendable (BodyWriter) async throws -> Void
        ) -> Body {
            Body(source: .stream(length: length, produce))
        }

        /// Whether the body can be sent more than once.
        var isReplayable: Bool {
            if case .stream = source { false } else { true }
        }
    }

    /// Takes the chunks of a body that is being sent.
    public struct BodyWriter: Sendable {
        let send: @Sendable (ByteBuffer) async throws -> Void

        /// Sends a chunk, and returns when it has been passed to the network.
        public func write(_ chunk: ByteBuffer) async throws { try await send(chunk) }

        /// Sends a chunk, and returns when it has been passed to the network.
        public func write(_ chunk: some Sequence<UInt8>) async throws { try await send(ByteBuffer(bytes: chunk)) }
    }
}

/// The head of an answer.
public struct PinnedResponse: Sendable {
    /// Where the answer came from: the request's URL, or that of the last redirect.
    public var url: URL
    /// The status.
    public var status: HTTPResponseStatus
    /// The header fields. Content codings are not undone; none is asked for.
    public var headers: HTTPHeaders

    /// The status as a number.
    public var statusCode: Int { Int(status.code) }
}
