// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Records the messages that pass a point in a test, for later assertions. Any thread may use it.
public final class Eavesdropper<Message: Sendable>: Sendable {
    /// A message and the time at which it was recorded, in nanoseconds on the test's clock.
    public struct Record: Sendable {
        /// The time of the message.
        public let time: Int64
        /// The message.
        public let message: Message
    }

    private let filter: @Sendable (Message) -> Bool
    private let storage = Mutex<[Record]>([])

    /// Creates a recorder of the messages that `filter` accepts; by default, of all messages.
    public init(where filter: @escaping @Sendable (Message) -> Bool = { _ in true }) {
        self.filter = filter
    }

    /// Records a message if the filter accepts it.
    public func observe(_ message: Message, at time: Int64 = 0) {
        guard filter(message) else { return }
        storage.withLock { $0.append(Record(time: time, message: message)) }
    }

    /// The records, in order.
    public var records: [Record] { storage.withLock { $0 } }

    /// The recorded messages, in order, without their times.
    public var messages: [Message] { records.map(\.message) }

    /// The number of recorded messages.
    public var count: Int { storage.withLock { $0.count } }

    /// Returns and clears the records.
    @discardableResult
    public func drain() -> [Record] {
        storage.withLock { records in
            defer { records = [] }
            return records
        }
    }
}
