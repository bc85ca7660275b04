// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension AllowedIPsTrie {
    /// The memory of this trie, in bytes.
    var byteCount: Int {
        capacity * MemoryLayout<Node>.stride + (1 << directoryBits) * MemoryLayout<Slot>.stride
            + peers.capacity * MemoryLayout<PeerList>.stride
    }

    // MARK: - Nodes

    /// Returns an unused index, and grows the block if there is none.
    mutating func freeIndex() -> Int32 {
        if firstFree >= 0 {
            let index = firstFree
            firstFree = self[index].next
            return index
        }
        if usedNodes == capacity { resizeNodes(to: capacity * 2) }
        defer { usedNodes += 1 }
        return Int32(usedNodes)
    }

    private mutating func resizeNodes(to newCapacity: Int) {
        let moved = UnsafeMutablePointer<Node>.allocate(capacity: newCapacity)
        unsafe moved.moveInitialize(from: nodes, count: usedNodes)
        unsafe nodes.deallocate()
        unsafe nodes = moved
        capacity = newCapacity
    }

    /// Releases all memory after the last entry was removed.
    mutating func releaseStorage() {
        usedNodes = 0
        firstFree = -1
        resizeNodes(to: Self.initialCapacity)
        peers = []
        layOutDirectory()
    }

    // MARK: - Peers

    func count(of peer: Int32) -> Int {
        peer >= 0 && Int(peer) < peers.count ? Int(peers[Int(peer)].count) : 0
    }

    /// Calls `body` with each prefix of a peer, oldest first.
    func forEach(of peer: Int32, _ body: (_ bits: Key, _ length: Int) -> Void) {
        guard peer >= 0, Int(peer) < peers.count else { return }
        var index = peers[Int(peer)].head
        while index >= 0 {
            let node = self[index]
            body(node.bits, Int(node.length))
            index = node.next
        }
    }

    /// Appends an entry to its peer's list.
    mutating func appendToPeerList(_ entry: Int32) {
        let peer = Int(self[entry].peer)
        if peer >= peers.count {
            peers.append(contentsOf: repeatElement(PeerList(), count: peer + 1 - peers.count))
        }
        let tail = peers[peer].tail
        self[entry].previous = tail
        self[entry].next = -1
        if tail >= 0 { self[tail].next = entry } else { peers[peer].head = entry }
        peers[peer].tail = entry
        peers[peer].count += 1
    }

    /// Removes an entry from its peer's list.
    mutating func removeFromPeerList(_ entry: Int32) {
        let node = self[entry]
        let peer = Int(node.peer)
        if node.previous >= 0 { self[node.previous].next = node.next } else { peers[peer].head = node.next }
        if node.next >= 0 { self[node.next].previous = node.previous } else { peers[peer].tail = node.previous }
        peers[peer].count -= 1
        self[entry].previous = -1
        self[entry].next = -1
    }
}
