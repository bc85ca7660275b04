// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

extension MemoryPlatform {
    /// What comes out of the tunnel and goes nowhere, oldest first, as it comes: ``takeDelivered()`` for tasks.
    ///
    /// It goes on from one start to the next, and ends when the task that reads it is cancelled. What is not read stays in the
    /// interface's bounded queue, and holds the provider up once that is full. Several may iterate it: each packet goes to one.
    public var deliveries: Deliveries { Deliveries(platform: self) }

    /// What comes out of a tunnel in memory.
    public struct Deliveries: AsyncSequence, Sendable {
        let platform: MemoryPlatform

        /// Takes packets one at a time.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let platform: MemoryPlatform
            private var arrivals: AsyncStream<Void>.AsyncIterator

            init(platform: MemoryPlatform) {
                self.platform = platform
                // From here on, so that nothing is missed between looking and waiting.
                arrivals = platform.arrivals.follow().makeAsyncIterator()
            }

            /// The next packet; nil when the task is cancelled.
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
