// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One address family of ``AllowedIPs``: a map from prefixes to peer slots with longest-prefix lookup.
///
/// The basic structure is a path-compressed binary radix trie: every node is either an entry or a branch with two children.
/// Nodes are in one flat block and refer to each other by index. Each peer's entries form a doubly linked list through the
/// nodes, so that removing a peer takes time proportional to its entries.
///
/// A deep trie costs one dependent memory access per level, so from ``directoryThreshold`` entries on a *directory* precedes
/// it: an array indexed by the ``directoryBits`` bits after the *region*, a prefix that contains nearly all entries
/// (`10.0.0.0/8`, for example, or `::/0` without a common prefix). Entries inside the region that are long enough are below
/// their own directory slot. All others are in the main trie; those of them that cover a slot are also recorded there, so
/// that a lookup inside the region never visits the main trie. The directory is rebuilt whenever the number of entries has
/// doubled or fallen to an eighth.
///
/// Not thread-safe. Only this type creates node indices, which confines the unsafe accesses to it.
@safe
struct AllowedIPsTrie<Key: FixedWidthInteger & UnsignedInteger & Sendable>: ~Copyable, @unchecked Sendable {
    /// An entry (`peer` at least 0) or a branch (`peer` is -1): 32 bytes for IPv4, 48 for IPv6.
    struct Node {
        /// The next nodes, by the first bit after the prefix. They are first in the layout, because `lookup` indexes
        /// them there.
        var children: (Int32, Int32)
        var parent: Int32
        var peer: Int32
        var bits: Key
        /// The neighbours in the peer's list. `next` also links free nodes.
        var previous: Int32
        var next: Int32
        /// Prefix length, or ``freeMark``.
        var length: UInt8

        init(bits: Key, length: Int) {
            children = (-1, -1)
            parent = -1
            peer = -1
            self.bits = bits
            previous = -1
            next = -1
            self.length = UInt8(truncatingIfNeeded: length)
        }
    }

    /// A directory slot: the trie below it, and the longest entry of the main trie that covers it.
    struct Slot {
        var root: Int32
        var cover: Int32
    }

    /// A peer's entries, oldest first.
    struct PeerList {
        var head: Int32 = -1
        var tail: Int32 = -1
        var count: Int32 = 0
    }

    static var freeMark: UInt8 { 255 }
    static var directoryThreshold: Int { 16 }
    static var maximumDirectoryBits: Int { 20 }
    static var initialCapacity: Int { 4 }

    /// The number of entries.
    private(set) var count = 0
    /// The number of nodes in use, branches included.
    private(set) var nodeCount = 0

    // Storage; `+Storage` and `+Directory` maintain it.
    var nodes: UnsafeMutablePointer<Node>
    var capacity: Int
    var usedNodes = 0
    var firstFree: Int32 = -1

    var slots: UnsafeMutablePointer<Slot>
    var directoryBits = 0
    var region: Key = 0
    var regionLength = 0
    var mainRoot: Int32 = -1
    /// The number of entries when the directory was last laid out.
    var plannedCount = 0

    var peers: [PeerList] = []

    init() {
        unsafe nodes = .allocate(capacity: Self.initialCapacity)
        capacity = Self.initialCapacity
        unsafe slots = .allocate(capacity: 1)
        unsafe slots.initialize(to: Slot(root: -1, cover: -1))
    }

    deinit {
        unsafe nodes.deallocate()
        unsafe slots.deallocate()
    }

    /// The node at an index that this trie created.
    subscript(node: Int32) -> Node {
        @inline(__always) get { unsafe nodes[Int(node)] }
        @inline(__always) nonmutating set { unsafe nodes[Int(node)] = newValue }
    }

    // MARK: - Lookup

    /// Returns the peer with the longest prefix of `key`; -1 if there is none.
    @inline(__always)
    func lookup(_ key: Key) -> Int32 {
        guard (key ^ region).leadingZeroBitCount >= regionLength else { return walk(from: mainRoot, key, nothing: -1) }
        let slot = unsafe slots[slotIndex(key)]
        let best = walk(from: slot.root, key, nothing: -1)
        if best >= 0 || slot.cover < 0 { return best }
        return unsafe nodes[Int(slot.cover)].peer
    }

    @inline(__always)
    private func walk(from start: Int32, _ key: Key, nothing: Int32) -> Int32 {
        var best = nothing
        var index = start
        while index >= 0 {
            let node = unsafe nodes + Int(index)
            let length = unsafe Int(node.pointee.length)
            let difference = unsafe key ^ node.pointee.bits
            if difference.leadingZeroBitCount < length { break }
            let peer = unsafe node.pointee.peer
            best = peer >= 0 ? peer : best
            // A node of full length has no children, so the masked shift may select either.
            let side = Int(truncatingIfNeeded: key &>> Key(truncatingIfNeeded: Key.bitWidth &- 1 &- length)) & 1
            index = unsafe UnsafeRawPointer(node).load(fromByteOffset: side &* 4, as: Int32.self)
        }
        return best
    }

    /// The bit of `bits` after its first `length`: 0 or 1.
    @inline(__always)
    static func side(of bits: Key, after length: Int) -> Int {
        Int(truncatingIfNeeded: bits >> Key(truncatingIfNeeded: Key.bitWidth - 1 - length)) & 1
    }

    /// The first `length` bits of `bits`, the rest zero.
    static func masked(_ bits: Key, _ length: Int) -> Key {
        length == 0 ? 0 : bits & (Key.max << Key(truncatingIfNeeded: Key.bitWidth - length))
    }

    /// The node of exactly this prefix, entry or branch; -1 if there is none.
    func exactNode(_ bits: Key, _ length: Int) -> Int32 {
        var index = top(for: bits, length)
        while index >= 0 {
            let node = self[index]
            let nodeLength = Int(node.length)
            guard nodeLength <= length, (bits ^ node.bits).leadingZeroBitCount >= nodeLength else { return -1 }
            if nodeLength == length { return index }
            index = Self.side(of: bits, after: nodeLength) == 0 ? node.children.0 : node.children.1
        }
        return -1
    }

    /// Returns the peer that has exactly this prefix; -1 if none has.
    func owner(of bits: Key, length: Int) -> Int32 {
        let node = exactNode(bits, length)
        return node < 0 ? -1 : self[node].peer
    }

    // MARK: - Change

    /// Assigns the prefix to `peer`; returns the other peer that had it, if any.
    mutating func insert(_ bits: Key, length: Int, peer: Int32) -> Int32? {
        precondition(peer >= 0, "a peer slot is never negative")
        let fresh = takeNode(Node(bits: bits, length: length))
        let place = link(fresh)
        if place != fresh { giveBack(fresh) }
        let previous = self[place].peer
        guard previous != peer else { return nil }
        if previous >= 0 {
            removeFromPeerList(place)
        }
        self[place].peer = peer
        appendToPeerList(place)
        guard previous < 0 else { return previous }
        count += 1
        noteCover(place)
        if count >= Self.directoryThreshold, count >= plannedCount * 2 { layOutDirectory() }
        return nil
    }

    /// Removes the prefix if `peer` has it; returns whether it did.
    mutating func remove(_ bits: Key, length: Int, peer: Int32) -> Bool {
        let node = exactNode(bits, length)
        guard node >= 0, peer >= 0, self[node].peer == peer else { return false }
        removeEntry(node)
        settleAfterRemoval()
        return true
    }

    /// Removes the prefixes of `peer`, oldest first, at most `most`; returns their number.
    @discardableResult
    mutating func removeAll(of peer: Int32, atMost most: Int = .max) -> Int {
        guard peer >= 0, Int(peer) < peers.count else { return 0 }
        var removed = 0
        while removed < most, peers[Int(peer)].head >= 0 {
            removeEntry(peers[Int(peer)].head)
            removed += 1
        }
        if removed > 0 { settleAfterRemoval() }
        return removed
    }

    private mutating func removeEntry(_ node: Int32) {
        forgetCover(node)
        removeFromPeerList(node)
        self[node].peer = -1
        count -= 1
        let children = self[node].children
        if children.0 < 0 || children.1 < 0 { collapse(node) }
    }

    /// Removes a node with at most one child, and also its parent if that would become a branch with one child.
    private mutating func collapse(_ node: Int32) {
        let (children, parent) = (self[node].children, self[node].parent)
        let child = children.0 >= 0 ? children.0 : children.1
        relink(node, to: child)
        giveBack(node)
        if child < 0, parent >= 0, self[parent].peer < 0 { collapse(parent) }
    }

    private mutating func settleAfterRemoval() {
        if count == 0 {
            releaseStorage()
        } else if directoryBits > 0, count <= plannedCount / 8 {
            layOutDirectory()
        }
    }

    /// Inserts a node without children into its trie. Returns it, or the existing node of the same prefix.
    mutating func link(_ fresh: Int32) -> Int32 {
        let (bits, length) = (self[fresh].bits, Int(self[fresh].length))
        var parent: Int32 = -1
        var index = top(for: bits, length)
        while index >= 0 {
            let node = self[index]
            let nodeLength = Int(node.length)
            let common = min((bits ^ node.bits).leadingZeroBitCount, nodeLength, length)
            if common < nodeLength {
                relink(index, to: fresh)
                if common == length {
                    adopt(index, by: fresh)
                } else {
                    let branch = takeNode(Node(bits: Self.masked(bits, common), length: common))
                    relink(fresh, to: branch)
                    adopt(index, by: branch)
                    adopt(fresh, by: branch)
                }
                return fresh
            }
            if nodeLength == length { return index }
            parent = index
            index = Self.side(of: bits, after: nodeLength) == 0 ? node.children.0 : node.children.1
        }
        if parent >= 0 {
            adopt(fresh, by: parent)
        } else {
            setTop(for: bits, length, to: fresh)
        }
        return fresh
    }

    /// Makes `child` the child of `parent` on the side that its bits determine.
    func adopt(_ child: Int32, by parent: Int32) {
        if Self.side(of: self[child].bits, after: Int(self[parent].length)) == 0 {
            self[parent].children.0 = child
        } else {
            self[parent].children.1 = child
        }
        self[child].parent = parent
    }

    /// Replaces the link to `node` by one to `replacement`; -1 for none.
    mutating func relink(_ node: Int32, to replacement: Int32) {
        let parent = self[node].parent
        if parent < 0 {
            setTop(for: self[node].bits, Int(self[node].length), to: replacement)
        } else if self[parent].children.0 == node {
            self[parent].children.0 = replacement
        } else {
            self[parent].children.1 = replacement
        }
        if replacement >= 0 { self[replacement].parent = parent }
    }

    // MARK: - Node counting

    /// Takes a node from the free list or the end of the block.
    mutating func takeNode(_ node: Node) -> Int32 {
        nodeCount += 1
        let index = freeIndex()
        unsafe (nodes + Int(index)).initialize(to: node)
        return index
    }

    /// Puts a node on the free list.
    mutating func giveBack(_ node: Int32) {
        nodeCount -= 1
        self[node].length = Self.freeMark
        self[node].peer = -1
        self[node].next = firstFree
        firstFree = node
    }
}
