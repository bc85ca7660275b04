// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NIOCore
public import TrustPinning

/// The body of a response, as a sequence of chunks. It can be read once.
///
/// Data is received only as fast as it is read. If the rest of a body is not read, the connection is closed.
public struct PinnedBody: AsyncSequence, Sendable {
    /// A chunk of a few kilobytes.
    public typealias Element = ByteBuffer
    /// The error that ended the body early.
    public typealias Failure = PinnedSessionError

    let reader: BodyReader

    /// Returns an iterator over the unread chunks.
    public func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

    /// The iterator over the chunks.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
        let reader: BodyReader

        /// Returns the next chunk, or `nil` at the end.
        public mutating func next() async throws(PinnedSessionError) -> ByteBuffer? {
            try await reader.queue.next().get()
        }

        /// Returns the next chunk, or `nil` at the end.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(PinnedSessionError) -> ByteBuffer? { try await reader.queue.next().get() }
    }

    /// Reads the rest of the body.
    /// - Throws: `.responseTooLarge` if it has more than `limit` bytes.
    public func collect(upTo limit: Int) async throws(PinnedSessionError) -> ByteBuffer {
        var all = ByteBuffer()
        while var chunk = try await reader.queue.next().get() {
            guard chunk.readableBytes <= limit - all.readableBytes else { throw .responseTooLarge(limit: limit) }
            all.writeBuffer(&chunk)
        }
        return all
    }
}

/// The shared reader of a body. Each object that may still read the body retains it. Releasing the last reference
/// closes an unfinished connection.
final class BodyReader: Sendable {
    let queue: BodyQueue

    init(_ queue: BodyQueue) { self.queue = queue }

    deinit { queue.abandon() }
}
