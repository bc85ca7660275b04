// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NIOCore
public import TrustPinning

/// The body of an answer, chunk by chunk as it comes. It can be read once.
///
/// The server is not read faster than the body is. Whoever stops before its end closes the connection.
public struct PinnedBody: AsyncSequence, Sendable {
    /// A chunk: a few kilobytes.
    public typealias Element = ByteBuffer
    /// Why there is no more.
    public typealias Failure = PinnedSessionError

    let reader: BodyReader

    /// An iterator over the chunks that are left.
    public func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

    /// Reads the chunks.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
        let reader: BodyReader

        /// The next chunk, or nil at the end.
        public mutating func next() async throws(PinnedSessionError) -> ByteBuffer? {
            try await reader.queue.next().get()
        }

        /// The next chunk, or nil at the end.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(PinnedSessionError) -> ByteBuffer? { try await reader.queue.next().get() }
    }

    /// All of the body.
    /// - Throws: `.responseTooLarge` when it has more than `limit` bytes.
    public func collect(upTo limit: Int) async throws(PinnedSessionError) -> ByteBuffer {
        var all = ByteBuffer()
        while var chunk = try await reader.queue.next().get() {
            guard chunk.readableBytes <= limit - all.readableBytes else { throw .responseTooLarge(limit: limit) }
            all.writeBuffer(&chunk)
        }
        return all
    }
}

/// Held by whoever may still read a body. The connection ends with the last of them.
final class BodyReader: Sendable {
    let queue: BodyQueue

    init(_ queue: BodyQueue) { self.queue = queue }

    deinit { queue.abandon() }
}
