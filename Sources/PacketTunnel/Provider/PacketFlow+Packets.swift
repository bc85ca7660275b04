// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

extension PacketFlow {
    /// The packets that the system sends into the tunnel, one at a time. The sequence ends when the tunnel ends, when
    /// the task is cancelled or when a data plane leases the interface.
    ///
    /// Several tasks may iterate it; each packet is returned to one of them. Unread packets stay in the interface's own
    /// queue.
    public var packets: Packets { Packets(flow: self) }

    /// The packets of a flow as they arrive.
    public struct Packets: AsyncSequence, Sendable {
        let flow: PacketFlow

        /// Takes packets one at a time.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let flow: PacketFlow
            /// A batch of one packet. Further packets stay in the interface's queue, so that releasing an iterator
            /// loses none.
            private var batch: PacketBatch?

            init(flow: PacketFlow) { self.flow = flow }

            /// The next packet; nil at the end.
            /// - Throws: `.hostFailed` if there is no memory to read into.
            public mutating func next() async throws(TunnelError) -> [UInt8]? {
                let batch = if let batch { batch } else { try PacketFlow.makeBatch(PacketBatch.minimumReadBytes) }
                self.batch = batch
                do throws(TunnelError) {
                    _ = try await flow.read(into: batch)
                } catch {
                    guard error.code == .closed else { throw error }
                    return nil
                }
                return batch.copy(of: 0)
            }

            /// The next packet; nil at the end.
            public mutating func next(
                isolation actor: isolated (any Actor)?
            ) async throws(TunnelError) -> [UInt8]? {
                try await next()
            }
        }

        /// Begins to take packets.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(flow: flow) }
    }

    /// A batch of one packet.
    static func makeBatch(_ byteCapacity: Int) throws(TunnelError) -> PacketBatch {
        do throws(TunnelIOError) {
            return try PacketBatch(packetCapacity: 1, byteCapacity: byteCapacity)
        } catch {
            throw TunnelError(.hostFailed, error.description)
        }
    }
}
