// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The handshake messages and cookie replies that wait to be sent: a bounded first-in, first-out queue.
package struct Outbox {
    package struct Entry {
        package var bytes: [UInt8]
        package var endpoint: Endpoint
        var isCookieReply: Bool
    }

    private var entries: [Entry] = []
    private var head = 0
    /// The number of cookie replies in the queue. Any host can cause them.
    private(set) var cookieReplies = 0

    package init() {}

    package var count: Int { entries.count - head }
    package var isEmpty: Bool { count == 0 }
    /// The length of the message that is next.
    package var firstByteCount: Int? { head < entries.count ? entries[head].bytes.count : nil }

    package mutating func append(_ bytes: [UInt8], to endpoint: Endpoint, isCookieReply: Bool = false) {
        entries.append(Entry(bytes: bytes, endpoint: endpoint, isCookieReply: isCookieReply))
        if isCookieReply { cookieReplies += 1 }
    }

    package mutating func popFirst() -> Entry? {
        guard head < entries.count else { return nil }
        let entry = entries[head]
        head += 1
        if entry.isCookieReply { cookieReplies -= 1 }
        if head == entries.count {
            // Keep the capacity of a quiet queue, but release that of a burst.
            entries.removeAll(keepingCapacity: entries.capacity <= 64)
            head = 0
        } else if head >= 256 {
            entries.removeFirst(head)
            head = 0
        }
        return entry
    }

    package mutating func removeAll() {
        entries = []
        head = 0
        cookieReplies = 0
    }
}
