// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension AllowedIPsTrie {
    /// The memory of this trie, in bytes.
    var byteCount: Int {
        (unsafe larger == nil ? capacity : capacity * 3) * MemoryLayout<Node>.stride
            + (directory.slotCount + (next?.slotCount ?? 0)) * MemoryLayout<Slot>.stride
            + peers.capacity * MemoryLayout<PeerList>.stride
    }

    // MARK: - Nodes

    /// Takes an index from the free list, which must not be empty.
    mutating func takeFree() -> Int32 {
        let index = firstFree
        firstFree = self[index].next
        return index
    }

    /// Returns the first of some unused indices at the end of the block. If few are left, a larger block is begun.
    mutating func extend(by count: Int) -> Int {
        let isFull = usedNodes + count > capacity
        let hasFew = capacity - usedNodes <= capacity / 16 + 2 * Self.mostReserved
        if unsafe larger == nil, isFull || capacity > mostAtOnce && hasFew {
            unsafe larger = .allocate(capacity: capacity * 2)
        }
        if isFull { copyNodes(atMost: .max) }
        defer { usedNodes += count }
        return usedNodes
    }

    /// Copies nodes to the larger block, and uses that block when it has all of them.
    mutating func copyNodes(atMost most: Int) {
        guard let larger = unsafe larger else { return }
        let count = min(most, usedNodes - copiedNodes)
        unsafe (larger + copiedNodes).update(from: nodes + copiedNodes, count: count)
        copiedNodes += count
        guard copiedNodes == usedNodes else { return }
        unsafe retire(nodes, isLarge: capacity > mostAtOnce)
        unsafe (nodes, self.larger, copiedNodes) = (larger, nil, 0)
        capacity *= 2
    }

    /// Keeps a large block for ``AllowedIPs/takeRetired()``, or releases a small one. If two are kept already, the oldest is
    /// released immediately.
    mutating func retire(_ block: UnsafeMutableRawPointer, isLarge: Bool) {
        let block = unsafe RetiredBlock(block)
        if isLarge { retired.retire(block) }
    }

    /// Retires all memory after the last entry was removed, or releases it if it is small.
    mutating func releaseStorage() {
        let (mostAtOnce, isLarge) = (mostAtOnce, capacity > mostAtOnce)
        guard isLarge else {
            self = AllowedIPsTrie(mostAtOnce: mostAtOnce)
            return
        }
        // If each retired table owned the earlier ones, they would form a chain without a limit.
        var kept = retired
        retired = []
        kept.retire(RetiredTable(self))
        self = AllowedIPsTrie(mostAtOnce: mostAtOnce)
        retired = kept
    }

    // MARK: - Peers

    /// The list of a peer; an empty one if there is none.
    func list(of peer: Int32) -> PeerList { peer >= 0 && Int(peer) < peers.count ? peers[Int(peer)] : PeerList() }

    /// Replaces the list of a peer.
    private mutating func setList(of peer: Int32, _ list: PeerList) {
        peers.extend(to: Int(peer) + 1, with: PeerList())
        peers[Int(peer)] = list
    }

    func count(of peer: Int32) -> Int { Int(list(of: peer).count) }

    /// Calls `body` with each prefix of a peer, oldest first.
    func forEach(of peer: Int32, _ body: (_ bits: Key, _ length: Int) -> Void) {
        var index = list(of: peer).head
        while index >= 0 {
            let node = self[index]
            body(node.bits, Int(node.length))
            index = node.next
        }
    }

    /// Appends an entry to its peer's list.
    mutating func appendToPeerList(_ entry: Int32) {
        var list = list(of: self[entry].peer)
        self[entry].previous = list.tail
        self[entry].next = -1
        if list.tail >= 0 { self[list.tail].next = entry } else { list.head = entry }
        list.tail = entry
        list.count += 1
        setList(of: self[entry].peer, list)
    }

    /// Removes an entry from its peer's list.
    mutating func removeFromPeerList(_ entry: Int32) {
        let node = self[entry]
        var list = list(of: node.peer)
        if node.previous >= 0 { self[node.previous].next = node.next } else { list.head = node.next }
        if node.next >= 0 { self[node.next].previous = node.previous } else { list.tail = node.previous }
        list.count -= 1
        setList(of: node.peer, list)
        self[entry].previous = -1
        self[entry].next = -1
    }
}
