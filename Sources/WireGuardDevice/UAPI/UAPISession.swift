// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// One client of the management socket: bytes in, replies out. Independent of sockets.
struct UAPISession: Sendable {
    private var parser: UAPIRequestParser
    private let state: @Sendable () -> UAPIDeviceState
    private let apply: @Sendable (UAPIDeviceUpdate) -> UAPIErrno?
    /// Operations wait to be answered, since enough replies wait to be written.
    private(set) var hasMore = false

    /// Once replies of this many bytes wait, the operations behind them wait too.
    let outputLimit: Int
    /// The most bytes to be given at a time.
    let chunkBytes: Int

    /// - Parameters:
    ///   - state: the device's state, asked for each `get`.
    ///   - apply: carries an update out; gives the error when it could not.
    ///   - resolveZone: the index of an interface by name.
    ///   - limits: the bounds of its memory.
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

    /// Answers more of the operations that wait. To be called when the replies so far are written and ``hasMore`` is set.
    /// - Returns: as ``receive(_:replyingInto:)``.
    mutating func resume(replyingInto output: inout [UInt8]) -> Bool {
        answer(into: &output)
    }

    /// The client sends no more: that ends an operation as well as a blank line does.
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
                // Room beforehand: a buffer that grows leaves copies of keys behind.
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
    /// No fewer bytes than a reply with this state has.
    fileprivate var estimatedReplyByteCount: Int {
        ManagementLimits.replyBytes(peers.count, peers.reduce(0) { $0 + $1.allowedIPs.count })
    }
}
