// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore

/// The unwritten part of a request's body, divided into pieces.
///
/// TLS reports a write as complete only when all of it has reached the network. If a large body were a single write, a
/// connection on a slow network would look idle.
struct OutgoingBody {
    /// A part of the body that is written in one step.
    struct Piece {
        var bytes: ByteBuffer
        /// Completed together with the write, if this piece is the end of the caller's chunk.
        var promise: EventLoopPromise<Void>?
        /// Whether it is the last piece of the request.
        var isLast: Bool
    }

    /// The size of a TLS record, in bytes.
    static let pieceSize = 16 * 1024

    private var chunks = CircularBuffer<(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)>()
    /// Whether no more chunks follow.
    private(set) var isComplete = false

    /// Adds a chunk.
    /// - Parameter promise: Completed when all of the chunk has reached the network, or has failed.
    mutating func append(_ bytes: ByteBuffer, promise: EventLoopPromise<Void>? = nil) {
        chunks.append((bytes, promise))
    }

    /// Marks the end of the body.
    mutating func complete() { isComplete = true }

    /// Removes and returns the next piece, or `nil` if none waits.
    mutating func nextPiece() -> Piece? {
        guard var chunk = chunks.popFirst() else { return nil }
        guard chunk.bytes.readableBytes > OutgoingBody.pieceSize,
            let bytes = chunk.bytes.readSlice(length: OutgoingBody.pieceSize)
        else { return Piece(bytes: chunk.bytes, promise: chunk.promise, isLast: chunks.isEmpty && isComplete) }
        chunks.prepend(chunk)
        return Piece(bytes: bytes, promise: nil, isLast: false)
    }

    /// Drops all waiting chunks, and fails their promises.
    mutating func fail(_ error: any Error) {
        let dropped = chunks
        chunks.removeAll()
        for chunk in dropped { chunk.promise?.fail(error) }
    }
}
