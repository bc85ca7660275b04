// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// WireGuard's cryptokey routing table (WireGuard paper, section 2), which maps each network to a peer.
///
/// A prefix belongs to at most one peer. Peers are identified by their slot in the caller's table. An address maps to
/// the peer with the longest prefix that contains it. Both directions use the table: the destination of an outgoing
/// packet selects the peer to encrypt for, and the source of an incoming packet must map to the peer that sent it.
///
/// A lookup neither allocates memory nor counts references. No other thread may read the table while it is changed.
package struct AllowedIPs: ~Copyable, Sendable {
    private var v4: AllowedIPsTrie<UInt32>
    private var v6: AllowedIPsTrie<UInt128>

    /// An empty table.
    package init() {
        self.init(mostAtOnce: AllowedIPsTrie<UInt32>.standardMostAtOnce)
    }

    /// An empty table that grows in steps from this number of nodes or slots on.
    init(mostAtOnce: Int) {
        v4 = AllowedIPsTrie(mostAtOnce: mostAtOnce)
        v6 = AllowedIPsTrie(mostAtOnce: mostAtOnce)
    }

    // This empty deinit is necessary; see ``Engine``.
    deinit {}

    // MARK: - Change

    /// Assigns `prefix` to `peer`; returns the slot of the peer that had it before, if that is another peer.
    @discardableResult
    package mutating func insert(_ prefix: IPPrefix, peer: Int32) -> Int32? {
        switch prefix.address.family {
        case .v4: v4.insert(prefix.address.key4, length: prefix.length, peer: peer)
        case .v6: v6.insert(prefix.address.key6, length: prefix.length, peer: peer)
        }
    }

    /// Assigns `prefix` to `peer`, unless the table has `most` prefixes and this is not one of them.
    /// - Returns: Whether `peer` has the prefix now.
    @discardableResult
    package mutating func insert(_ prefix: IPPrefix, peer: Int32, atMost most: Int) -> Bool {
        guard count < most || owner(of: prefix) != nil else { return false }
        insert(prefix, peer: peer)
        return true
    }

    /// Removes exactly this prefix if it belongs to `peer`; returns whether it did.
    @discardableResult
    package mutating func remove(_ prefix: IPPrefix, peer: Int32) -> Bool {
        switch prefix.address.family {
        case .v4: v4.remove(prefix.address.key4, length: prefix.length, peer: peer)
        case .v6: v6.remove(prefix.address.key6, length: prefix.length, peer: peer)
        }
    }

    /// Removes a peer's entries, oldest first, in time proportional to their number; at most `most`.
    /// - Returns: The number of removed entries.
    @discardableResult
    package mutating func removeAll(of peer: Int32, atMost most: Int = .max) -> Int {
        let removed = v4.removeAll(of: peer, atMost: most)
        return removed + v6.removeAll(of: peer, atMost: most - removed)
    }

    /// Prepares the table for its present number of prefixes, as a number of changes would do. The table works without it,
    /// but lookups may take longer until enough changes were made.
    /// - Returns: Whether something is left to prepare.
    @discardableResult
    package mutating func continueGrowth(changes: Int) -> Bool {
        v4.continueGrowth(changes: changes)
        v6.continueGrowth(changes: changes)
        return isGrowing
    }

    /// Whether ``continueGrowth(changes:)`` has something left to prepare.
    package var isGrowing: Bool { v4.isGrowing || v6.isGrowing }

    /// Returns the large memory that growth, or the removal of the last prefix, has made unused. The owner can release it
    /// when no other thread waits for the table.
    package mutating func takeRetired() -> [RetiredMemory] {
        guard !v4.retired.isEmpty || !v6.retired.isEmpty else { return [] }
        defer { (v4.retired, v6.retired) = ([], []) }
        return v4.retired + v6.retired
    }

    // MARK: - Lookup

    /// The peer with the longest prefix that contains `address`.
    package func lookup(_ address: IPAddress) -> Int32? {
        let peer =
            switch address.family {
            case .v4: v4.lookup(address.key4)
            case .v6: v6.lookup(address.key6)
            }
        return peer >= 0 ? peer : nil
    }

    /// The peer that has exactly this prefix.
    package func owner(of prefix: IPPrefix) -> Int32? {
        let peer =
            switch prefix.address.family {
            case .v4: v4.owner(of: prefix.address.key4, length: prefix.length)
            case .v6: v6.owner(of: prefix.address.key6, length: prefix.length)
            }
        return peer >= 0 ? peer : nil
    }

    /// Returns the peer of an IPv4 address, whose first byte is the most significant; -1 if there is none.
    package func lookup(v4 address: UInt32) -> Int32 {
        v4.lookup(address)
    }

    /// Returns the peer of an IPv6 address, which is given as two halves; -1 if there is none.
    @inline(__always)
    package func lookup(v6High high: UInt64, low: UInt64) -> Int32 {
        v6.lookup(UInt128(high) << 64 | UInt128(low))
    }

    // The lookups for packets are always inlined. A call would first copy the table's members to the stack.

    /// Returns the peer for the destination of a raw IP packet, or -1 if there is none or the bytes are not an IP
    /// packet.
    ///
    /// It checks only the version, and that the fixed header is complete; see ``IPHeader/totalLength(of:)``.
    @inline(__always)
    package func lookupDestination(of packet: UnsafeRawBufferPointer) -> Int32 {
        unsafe lookup(in: packet, v4At: 16, v6At: 24)
    }

    /// Returns the peer for the source of a raw IP packet, or -1 if there is none or the bytes are not an IP packet.
    ///
    /// It checks only the version, and that the fixed header is complete; see ``IPHeader/totalLength(of:)``.
    @inline(__always)
    package func lookupSource(of packet: UnsafeRawBufferPointer) -> Int32 {
        unsafe lookup(in: packet, v4At: 12, v6At: 8)
    }

    @inline(__always)
    private func lookup(in packet: UnsafeRawBufferPointer, v4At: Int, v6At: Int) -> Int32 {
        guard packet.count >= IPHeader.minimumLengthV4 else { return -1 }
        let first = unsafe packet[0]
        switch first >> 4 {
        case 4:
            return v4.lookup(unsafe UInt32(bigEndian: packet.loadUnaligned(fromByteOffset: v4At, as: UInt32.self)))
        case 6:
            guard packet.count >= IPHeader.lengthV6 else { return -1 }
            let high = unsafe UInt64(bigEndian: packet.loadUnaligned(fromByteOffset: v6At, as: UInt64.self))
            let low = unsafe UInt64(bigEndian: packet.loadUnaligned(fromByteOffset: v6At + 8, as: UInt64.self))
            return lookup(v6High: high, low: low)
        default:
            return -1
        }
    }

    // MARK: - Contents

    /// Calls `body` with each prefix of a peer: IPv4 before IPv6, and within each family in the order of addition.
    package func forEach(of peer: Int32, _ body: (IPPrefix) -> Void) {
        v4.forEach(of: peer) { bits, length in
            if let prefix = IPPrefix(.v4(bits), length: length) { body(prefix) }
        }
        v6.forEach(of: peer) { bits, length in
            let address = IPAddress(isIPv6: true, value: bits)
            if let prefix = IPPrefix(address, length: length) { body(prefix) }
        }
    }

    /// The number of prefixes of a peer.
    package func count(of peer: Int32) -> Int {
        v4.count(of: peer) + v6.count(of: peer)
    }

    /// The number of prefixes.
    package var count: Int { v4.count + v6.count }

    /// The number of trie nodes in use: at most twice the number of prefixes, minus one for each family.
    package var nodeCount: Int { v4.nodeCount + v6.nodeCount }

    /// The memory the table holds, in bytes.
    package var byteCount: Int { v4.byteCount + v6.byteCount }
}

extension IPAddress {
    /// The key of an IPv4 address.
    fileprivate var key4: UInt32 { UInt32(truncatingIfNeeded: low) }
    /// The key of an IPv6 address.
    fileprivate var key6: UInt128 { value }
}
