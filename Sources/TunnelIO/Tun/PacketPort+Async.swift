// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The same for tasks. Waiting takes no thread, however many wait.
extension PacketPort {
    /// Waits for the next packet.
    /// - Throws: `.cancelled` as soon as the task is; `.interrupted`, `.closed`, `.deviceRemoved`, each at once, also in the
    ///   middle of waiting; `.eventLoop` when the system has no more descriptors.
    public func nextPacket() async throws(TunnelIOError) -> [UInt8] {
        try await waiters.next(unless: hasReasonToReturn) { () throws(TunnelIOError) in try receiveNow() }
    }

    /// Waits for packets and appends as many as there are then and as the batch has room for.
    /// - Parameter batch: one of at least ``PacketBatch/minimumReadBytes``.
    /// - Returns: how many; zero only when the batch is full: when it has no room for another packet of any size.
    /// - Throws: as ``nextPacket()``; `.invalidBatch` for a batch that is too small.
    public func receiveNext(into batch: PacketBatch) async throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        guard batch.nextStart() != nil else { return 0 }
        return try await waiters.next(unless: hasReasonToReturn) { () throws(TunnelIOError) in
            let count = try receive(into: batch, timeout: .zero)
            return count > 0 ? count : nil
        }
    }

    /// Packets as they come. The sequence ends when the port is closed, its device removed or the task cancelled, and throws
    /// when the port is interrupted.
    public var packets: Packets { Packets(port: self) }

    /// Packets of a port as they come.
    public struct Packets: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let port: PacketPort

        /// The sequence itself: it has no state.
        public func makeAsyncIterator() -> Packets { self }

        /// Waits for the next packet.
        public func next() async throws(TunnelIOError) -> [UInt8]? {
            do throws(TunnelIOError) {
                return try await port.nextPacket()
            } catch {
                switch error.code {
                case .closed, .deviceRemoved, .cancelled: return nil
                default: throw error
                }
            }
        }

        /// Waits for the next packet.
        public func next(isolation actor: isolated (any Actor)?) async throws(TunnelIOError) -> [UInt8]? {
            try await next()
        }
    }

    /// Hands packets to the system one after the other, and lets other tasks run between them.
    ///
    /// A TUN device takes a packet at once or not at all, so that there is nothing to wait for.
    /// - Returns: how many the system took, and how many it refused.
    /// - Throws: `.cancelled` when the task is, `.closed`, `.deviceRemoved`; packets may have been sent by then.
    public func sendAll(_ packets: some Sequence<[UInt8]>) async throws(TunnelIOError) -> TunSendResult {
        var result = TunSendResult(sent: 0, dropped: 0)
        for packet in packets {
            if Task.isCancelled { throw TunnelIOError(.cancelled) }
            if try send(packet) { result.sent += 1 } else { result.dropped += 1 }
            await Task.yield()
        }
        return result
    }

    private func hasReasonToReturn() -> Bool {
        device.hasBufferedPackets || isInterrupted
    }
}
