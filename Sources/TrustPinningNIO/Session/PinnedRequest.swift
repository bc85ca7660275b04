// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NIOCore
public import NIOHTTP1
import TrustPinning

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// An HTTPS request.
public struct PinnedRequest: Sendable {
    /// The `https` URL, without user and password. A fragment (after `#`) is not sent.
    public var url: URL
    /// The method.
    public var method: HTTPMethod
    /// The header fields. The session sets `Host` and the fields for framing and connections.
    public var headers: HTTPHeaders
    /// The body.
    public var body: Body
    /// Whether to wait at most one second for `100 Continue` before sending the body (RFC 9110, section 10.1.1).
    public var expectsContinue = false
    /// The time to wait for `100 Continue`.
    var continueTimeout = TimeAmount.seconds(1)
    /// The maximum time for the whole request, instead of the session's.
    public var timeout: Duration?

    /// Creates a request.
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

        /// A body of these bytes. They can be sent again after a redirect or on another connection.
        public static func bytes(_ bytes: some Sequence<UInt8>) -> Body {
            Body(source: .bytes(ByteBuffer(bytes: bytes)))
        }

        /// A body of these bytes. They can be sent again after a redirect or on another connection.
        public static func buffer(_ buffer: ByteBuffer) -> Body { Body(source: .bytes(buffer)) }

        /// A body of the chunks of a sequence, sent as they arrive and only as fast as the server accepts them.
        /// - Parameters:
        ///   - chunks: The sequence.
        ///   - length: The number of bytes, or `nil` to use chunked transfer coding.
        public static func stream<Chunks: AsyncSequence & Sendable>(_ chunks: Chunks, length: Int? = nil) -> Body
        where Chunks.Element == ByteBuffer {
            stream(length: length) { writer in
                for try await chunk in chunks { try await writer.write(chunk) }
            }
        }

        /// A body that `produce` writes. It ends when `produce` returns.
        /// - Parameters:
        ///   - length: The number of bytes, or `nil` to use chunked transfer coding.
        ///   - produce: Writes the body.
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

    /// Sends the chunks of a body.
    public struct BodyWriter: Sendable {
        let send: @Sendable (ByteBuffer) async throws -> Void

        /// Sends a chunk, and returns when it was passed to the network.
        public func write(_ chunk: ByteBuffer) async throws { try await send(chunk) }

        /// Sends a chunk, and returns when it was passed to the network.
        public func write(_ chunk: some Sequence<UInt8>) async throws { try await send(ByteBuffer(bytes: chunk)) }
    }
}

/// The head of a response.
public struct PinnedResponse: Sendable {
    /// The URL of the request or, after redirects, of the last one.
    public var url: URL
    /// The status of the response.
    public var status: HTTPResponseStatus
    /// The header fields. Content codings are not decoded, and by default none is requested.
    public var headers: HTTPHeaders

    /// The status as a number.
    public var statusCode: Int { Int(status.code) }
}

extension PinnedRequest {
    /// Returns the request that follows a redirect, or `nil` if the response is final.
    /// - Throws: `.redirectRefused` if the target is not permitted.
    func redirected(
        by response: PinnedResponse, _ redirection: Redirection
    ) throws(PinnedSessionError) -> (request: PinnedRequest, limit: Int)? {
        let next = try redirection.next(
            after: url, method: method.rawValue, isReplayable: body.isReplayable, status: response.statusCode,
            location: response.headers["location"].first)
        guard let next else { return nil }
        var request = self
        request.url = next.url
        for name in next.droppedFields { request.headers.remove(name: name) }
        if next.becomesGet {
            request.method = .GET
            request.body = .none
            request.expectsContinue = false
        }
        return (request, next.limit)
    }
}
