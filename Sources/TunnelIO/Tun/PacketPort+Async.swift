// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The asynchronous methods. A waiting task blocks no thread.
extension PacketPort {
    /// Waits for the next packet.
    /// - Throws: `.cancelled` if the task is cancelled; `.interrupted`, `.closed` or `.deviceRemoved`, each immediately, even
    ///   during the wait; `.eventLoop` if the system has no descriptors left.
    public func nextPacket() async throws(TunnelIOError) -> [UInt8] {
        try await waiters.next(unless: hasReasonToReturn) { () throws(TunnelIOError) in try receiveNow() }
    }

    /// The packets as they arrive. The sequence ends when the port is closed, its device removed or the task cancelled, and
    /// throws if the port is interrupted.
    public var packets: Packets { Packets(port: self) }

    /// A sequence of the packets of a port.
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
