// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

extension MemoryPlatform {
    /// The packets that the tunnel sends to no destination, oldest first, as they arrive. The asynchronous form of
    /// ``takeDelivered()``.
    ///
    /// The sequence continues across starts, and ends when the reading task is cancelled. Unread packets stay in the
    /// interface's bounded queue; a full queue blocks the provider. Several tasks may iterate the sequence: each packet
    /// is returned to one of them.
    public var deliveries: Deliveries { Deliveries(platform: self) }

    /// The packets that leave a tunnel in memory.
    public struct Deliveries: AsyncSequence, Sendable {
        let platform: MemoryPlatform

        /// Takes packets one at a time.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let platform: MemoryPlatform
            private var arrivals: AsyncStream<Void>.AsyncIterator

            init(platform: MemoryPlatform) {
                self.platform = platform
                // Subscribe before the first check, so that no arrival is missed.
                arrivals = platform.arrivals.follow().makeAsyncIterator()
            }

            /// The next packet; `nil` if the task is cancelled.
            public mutating func next() async -> [UInt8]? {
                while !Task.isCancelled {
                    if let packet = platform.device?.takeDelivered(atMost: 1).first { return packet }
                    guard await arrivals.next(isolation: #isolation) != nil else { return nil }
                }
                return nil
            }
        }

        /// Begins to take packets.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(platform: platform) }
    }
}
