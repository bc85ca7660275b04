// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// A client of the management socket, independent of sockets: it takes received bytes and returns replies.
struct UAPISession: Sendable {
    private var parser: UAPIRequestParser
    private let state: @Sendable () -> UAPIDeviceState
    private let apply: @Sendable (UAPIDeviceUpdate) -> UAPIErrno?
    /// Whether operations wait, because enough replies are still unwritten.
    private(set) var hasMore = false

    /// The number of waiting reply bytes from which on further operations wait too.
    let outputLimit: Int
    /// The maximum number of bytes to pass to ``receive(_:replyingInto:)`` at a time.
    let chunkBytes: Int

    /// - Parameters:
    ///   - state: Returns the device's state, once for each `get`.
    ///   - apply: Applies an update; returns the error if it failed.
    ///   - resolveZone: Returns the index of the interface with this name.
    ///   - limits: The limits of the session's memory.
    init(
        state: @escaping @Sendable () -> UAPIDeviceState, apply: @escaping @Sendable (UAPIDeviceUpdate) -> UAPIErrno?,
        resolveZone: @escaping @Sendable (String) -> UInt32? = { _ in nil },
        limits: ManagementLimits = ManagementLimits()
    ) {
        parser = UAPIRequestParser(
            maximumLineLength: limits.lineBytes, maximumPeers: limits.requestPeers,
            maximumAllowedIPs: limits.requestAllowedIPs, resolveZone: resolveZone)
        outputLimit = limits.replyBytes
        chunkBytes = limits.chunkBytes
        self.state = state
        self.apply = apply
    }

    /// Parses bytes, and appends the replies to the operations that they complete.
    /// - Returns: `false` if the client must be disconnected after the replies are written, because its bytes are not an
    ///   operation.
    mutating func receive(_ bytes: UnsafeRawBufferPointer, replyingInto output: inout [UInt8]) -> Bool {
        unsafe parser.feed(Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
        return answer(into: &output)
    }

    /// Answers more of the waiting operations. Call it if ``hasMore`` is set once the replies so far are written.
    /// - Returns: Like ``receive(_:replyingInto:)``.
    mutating func resume(replyingInto output: inout [UInt8]) -> Bool {
        answer(into: &output)
    }

    /// Handles the end of the client's bytes, which ends an operation like a blank line.
    mutating func end(replyingInto output: inout [UInt8]) {
        parser.finish()
        _ = answer(into: &output)
    }

    private mutating func answer(into output: inout [UInt8]) -> Bool {
        hasMore = false
        while let result = parser.next() {
            switch result {
            case .success(.get):
                let state = state()
                // Reserve the space in advance, because a buffer that grows leaves copies of keys behind.
                output.reserveCapacity(output.count + state.estimatedReplyByteCount)
                state.appendReply(to: &output)
            case .success(.set(let update)): UAPIReply.append(apply(update), answering: .set, to: &output)
            case .failure(let error):
                guard error.operation != .unknown else { return false }
                UAPIReply.append(error.errno, answering: error.operation, to: &output)
            }
            if output.count >= outputLimit {
                hasMore = true
                break
            }
        }
        return true
    }
}

extension UAPIDeviceState {
    /// An upper bound for the size of a reply with this state.
    fileprivate var estimatedReplyByteCount: Int {
        ManagementLimits.replyBytes(peers.count, peers.reduce(0) { $0 + $1.allowedIPs.count })
    }
}
