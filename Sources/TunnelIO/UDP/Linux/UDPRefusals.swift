// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses

    /// The paths on which the system refused to segment a message, so that not every batch repeats the failure.
    ///
    /// If the MTU of a path is too small for the datagrams (`EMSGSIZE`; `EINVAL` before Linux 6.14), other paths and
    /// shorter datagrams are not affected. A device that computes no checksums (`EIO`) affects all datagrams sent
    /// through it. Since routes change, the sender tries again after a time that doubles with each failure.
    ///
    /// One thread uses it at a time; the socket's lock ensures that.
    final class UDPRefusals: @unchecked Sendable {
        private struct Entry {
            var endpoint = Endpoint.unspecified
            /// Datagrams of this length and longer are not joined; zero in an entry that was never used.
            var size = 0
            var until = Int64.min
            var period: Int64 = 0
        }

        /// The shortest and the longest time after a refusal without an attempt.
        static let shortest = 10 * LaneClock.nanosecondsPerSecond
        static let longest = 320 * LaneClock.nanosecondsPerSecond
        /// The number of entries. Two paths with the same place in the table replace each other's entry.
        private static let capacity = 256

        private var entries: ContiguousArray<Entry> = []
        /// The refusal that applies to all paths of the socket.
        private var everywhere = Entry()
        /// Whether no refusal is recorded; the sender then does not read the clock.
        private(set) var isEmpty = true
        /// Whether the system ever accepted a joined message.
        private var hasWorked = false

        /// Whether ``recordSuccess(_:size:)`` would change anything.
        @inline(__always)
        var wantsSuccesses: Bool { !hasWorked || !isEmpty }

        /// Whether datagrams of this length to this endpoint must not be joined.
        func covers(_ endpoint: Endpoint, size: Int, at now: Int64) -> Bool {
            guard !isEmpty else { return false }
            if everywhere.size > 0, now < everywhere.until { return true }
            guard !entries.isEmpty else { return false }
            let entry = entries[Self.place(endpoint)]
            return entry.size > 0 && size >= entry.size && now < entry.until
                && Self.isSamePath(entry.endpoint, endpoint)
        }

        /// Records that the system refused a message of datagrams of this length with the error `code`.
        func recordRefusal(_ code: Int32, _ endpoint: Endpoint, size: Int, at now: Int64) {
            isEmpty = false
            if code == EIO || code == EINVAL && !hasWorked {
                Self.extend(&everywhere, now)
                everywhere.size = 1
                return
            }
            if entries.isEmpty { entries = ContiguousArray(repeating: Entry(), count: Self.capacity) }
            let place = Self.place(endpoint)
            if entries[place].size == 0 || !Self.isSamePath(entries[place].endpoint, endpoint) {
                entries[place] = Entry(endpoint: endpoint, size: size)
            }
            entries[place].size = min(entries[place].size, size)
            Self.extend(&entries[place], now)
        }

        /// Records that the system accepted a message of datagrams of this length.
        func recordSuccess(_ endpoint: Endpoint, size: Int) {
            hasWorked = true
            guard !isEmpty else { return }
            everywhere = Entry()
            guard !entries.isEmpty else {
                isEmpty = true
                return
            }
            let place = Self.place(endpoint)
            if entries[place].size > 0, size >= entries[place].size, Self.isSamePath(entries[place].endpoint, endpoint)
            {
                entries[place] = Entry()
                if entries.allSatisfy({ $0.size == 0 }) { isEmpty = true }
            }
        }

        private static func extend(_ entry: inout Entry, _ now: Int64) {
            // A path that worked for that long since its last refusal starts again with the shortest time.
            let isNew = entry.period == 0 || now &- entry.until > entry.period
            entry.period = isNew ? shortest : min(2 * entry.period, longest)
            entry.until = now &+ entry.period
        }

        /// Whether two endpoints have the same path, which does not depend on the port.
        private static func isSamePath(_ a: Endpoint, _ b: Endpoint) -> Bool {
            a.address == b.address && a.scopeID == b.scopeID
        }

        private static func place(_ endpoint: Endpoint) -> Int {
            let address = endpoint.address
            let mixed = (address.low ^ address.high &* 0x9e37_79b9_7f4a_7c15) &* 0x9e37_79b9_7f4a_7c15
            return Int(truncatingIfNeeded: mixed >> 56)
        }
    }
#endif
