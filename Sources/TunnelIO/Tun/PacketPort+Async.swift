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

    private func hasReasonToReturn() -> Bool {
        device.hasBufferedPackets || isInterrupted
    }
}
