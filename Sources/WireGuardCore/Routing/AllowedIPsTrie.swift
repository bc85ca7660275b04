// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// One address family of ``AllowedIPs``: a map from prefixes to peer slots with longest-prefix lookup.
///
/// The basic structure is a path-compressed binary radix trie: every node is either an entry or a branch with two children.
/// Nodes are in one flat block and refer to each other by index. Each peer's entries form a doubly linked list through the
/// nodes, so that removing a peer takes time proportional to its entries.
///
/// A deep trie costs one dependent memory access per level, so a *directory* precedes it, an array of shortcuts into the
/// trie. Its index is the bits after the *region*, a prefix that contains nearly all entries (`10.0.0.0/8`, for example, or
/// `::/0` without a common prefix). Its *depth* is the number of bits of the region and of the index together. A slot has
/// the first node below it that is at least as long as the depth, and the longest shorter entry that covers the slot. A
/// lookup inside the region then visits few nodes. From ``directoryThreshold`` entries on, another directory is planned
/// whenever the number of entries has doubled or fallen to an eighth.
///
/// No change moves the whole table. A larger block of nodes and another directory are filled in steps, some nodes and slots
/// with each change, and replace the former ones when they are complete. Until then, lookups use the former ones, and
/// changes are made in both.
///
/// A change of a wide prefix takes long in a large table: if the prefix is shorter than the depth, the change visits each
/// slot that it covers. A prefix that contains the region covers all slots.
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
    /// The number of nodes that a change copies to the larger block. A change uses at most two new nodes, and copying begins
    /// when a sixteenth of the block is unused, so it is complete before the block is full. It begins late because both
    /// blocks take memory until then.
    static var copiedPerChange: Int { 40 }
    /// The most nodes that are reserved for branches at a time.
    static var mostReserved: Int { 32 }
    static var standardMostAtOnce: Int { 1_024 }
    /// The number of slots that a change fills. The next directory has at most two slots for each entry, so it is complete
    /// long before the number of entries has doubled again.
    static var slotsPerChange: Int { 4 }

    /// The number of entries.
    private(set) var count = 0
    /// The number of nodes in use, branches included.
    private(set) var nodeCount = 0

    // Storage; `+Storage` and `+Directory` maintain it.
    var nodes: UnsafeMutablePointer<Node>
    var capacity: Int
    var usedNodes = 0
    var firstFree: Int32 = -1
    /// Unused nodes for branches. Lookups mostly read entries, so branches are kept out of their cache lines.
    var reservedBranches: Range<Int> = 0..<0
    /// Large memory that is no longer in use, for the owner.
    var retired: [RetiredMemory] = []
    /// The block of twice the capacity that replaces ``nodes``, and the number of nodes that it has already; `nil` and 0
    /// unless the block grows.
    var larger: UnsafeMutablePointer<Node>?
    var copiedNodes = 0

    /// The first node of the trie; -1 if the trie is empty.
    var root: Int32 = -1
    var directory: Directory
    /// The directory that replaces ``directory`` when all its slots are filled.
    var next: Directory?
    /// The number of entries when a directory was last planned.
    var plannedCount = 0
    /// The greatest number of nodes or slots that one change copies or fills all together.
    let mostAtOnce: Int

    /// The list of each peer, by slot.
    var peers = BlockArray<PeerList>()

    init(mostAtOnce: Int = standardMostAtOnce) {
        self.mostAtOnce = mostAtOnce
        unsafe nodes = .allocate(capacity: Self.initialCapacity)
        capacity = Self.initialCapacity
        unsafe larger = nil
        directory = Directory()
        directory.append(Slot(root: -1, cover: -1))
    }

    deinit {
        unsafe nodes.deallocate()
        unsafe larger?.deallocate()
        directory.deallocate()
        next?.deallocate()
    }

    /// The node at an index that this trie created.
    subscript(node: Int32) -> Node {
        @inline(__always) get { unsafe nodes[Int(node)] }
        @inline(__always) nonmutating set {
            unsafe nodes[Int(node)] = newValue
            if Int(node) < copiedNodes { unsafe larger?[Int(node)] = newValue }
        }
    }

    // MARK: - Lookup

    /// Returns the peer with the longest prefix of `key`; -1 if there is none.
    @inline(__always)
    func lookup(_ key: Key) -> Int32 {
        guard directory.contains(key) else { return walk(from: root, key) }
        let slot = directory[directory.index(of: key)]
        let best = walk(from: slot.root, key)
        if best >= 0 || slot.cover < 0 { return best }
        return unsafe nodes[Int(slot.cover)].peer
    }

    @inline(__always)
    private func walk(from start: Int32, _ key: Key) -> Int32 {
        var best: Int32 = -1
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
        var index = directory.isBelowSlot(bits, length) ? directory[directory.index(of: bits)].root : root
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
        settle()
        return nil
    }

    /// Removes the prefix if `peer` has it; returns whether it did.
    mutating func remove(_ bits: Key, length: Int, peer: Int32) -> Bool {
        let node = exactNode(bits, length)
        guard node >= 0, peer >= 0, self[node].peer == peer else { return false }
        removeEntry(node)
        return true
    }

    /// Removes the prefixes of `peer`, oldest first, at most `most`; returns their number.
    @discardableResult
    mutating func removeAll(of peer: Int32, atMost most: Int = .max) -> Int {
        var removed = 0
        while removed < most, case let entry = list(of: peer).head, entry >= 0 {
            removeEntry(entry)
            removed += 1
        }
        return removed
    }

    private mutating func removeEntry(_ node: Int32) {
        forgetCover(node)
        removeFromPeerList(node)
        self[node].peer = -1
        count -= 1
        let children = self[node].children
        if children.0 < 0 || children.1 < 0 { collapse(node) }
        settle()
    }

    /// Removes a node with at most one child, and also its parent if that would become a branch with one child.
    private mutating func collapse(_ node: Int32) {
        let (children, parent) = (self[node].children, self[node].parent)
        let child = children.0 >= 0 ? children.0 : children.1
        noteFirst(node, replacement: child)
        relink(node, to: child)
        giveBack(node)
        if child < 0, parent >= 0, self[parent].peer < 0 { collapse(parent) }
    }

    /// Called after each change of the number of entries.
    private mutating func settle() {
        guard count > 0 else { return releaseStorage() }
        let isGrown = count >= Self.directoryThreshold && count >= plannedCount * 2
        if next == nil, isGrown || directory.bits > 0 && count <= plannedCount / 8 { planDirectory() }
        continueGrowth(changes: 1)
    }

    /// Does the steps of a larger block and of another directory that belong to a number of changes.
    mutating func continueGrowth(changes: Int) {
        if unsafe larger != nil { copyNodes(atMost: min(changes, capacity) * Self.copiedPerChange) }
        if next != nil { fillSlots(atMost: min(changes, 1 << Self.maximumDirectoryBits) * Self.slotsPerChange) }
    }

    /// Whether steps of ``continueGrowth(changes:)`` are left.
    var isGrowing: Bool { unsafe larger != nil || next != nil }

    /// Inserts a node without children into its trie. Returns it, or the existing node of the same prefix.
    mutating func link(_ fresh: Int32) -> Int32 {
        let (bits, length) = (self[fresh].bits, Int(self[fresh].length))
        var index = start(for: bits, length)
        var parent = index >= 0 ? self[index].parent : -1
        while index >= 0 {
            let node = self[index]
            let nodeLength = Int(node.length)
            let common = min((bits ^ node.bits).leadingZeroBitCount, nodeLength, length)
            if common < nodeLength {
                relink(index, to: fresh)
                if common == length {
                    adopt(index, by: fresh)
                } else {
                    let branch = takeBranch(Node(bits: Self.masked(bits, common), length: common))
                    relink(fresh, to: branch)
                    adopt(index, by: branch)
                    adopt(fresh, by: branch)
                    noteFirst(branch, replacement: branch)
                }
                noteFirst(fresh, replacement: fresh)
                return fresh
            }
            if nodeLength == length { return index }
            parent = index
            index = Self.side(of: bits, after: nodeLength) == 0 ? node.children.0 : node.children.1
        }
        if parent >= 0 { adopt(fresh, by: parent) } else { root = fresh }
        noteFirst(fresh, replacement: fresh)
        return fresh
    }

    /// The node at which the search for the position of a prefix begins; -1 if the trie is empty.
    private func start(for bits: Key, _ length: Int) -> Int32 {
        guard directory.isBelowSlot(bits, length) else { return root }
        let slot = directory.index(of: bits)
        // An empty slot usually has a neighbour with nodes, which is nearer than the root.
        for distance in 0..<min(8, directory.slotCount) {
            var node = directory[slot ^ distance].root
            guard node >= 0 else { continue }
            let common = (bits ^ self[node].bits).leadingZeroBitCount
            while distance > 0, case let parent = self[node].parent, parent >= 0, self[parent].length >= common {
                node = parent
            }
            return node
        }
        return directory[slot].cover >= 0 ? directory[slot].cover : root
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
            root = replacement
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
        let index = firstFree >= 0 ? takeFree() : Int32(extend(by: 1))
        self[index] = node
        return index
    }

    /// Takes a node for a branch.
    private mutating func takeBranch(_ node: Node) -> Int32 {
        if firstFree < 0, reservedBranches.isEmpty {
            let count = min(max(usedNodes / 8, 1), Self.mostReserved)
            let first = extend(by: count)
            reservedBranches = first..<first + count
            for index in reservedBranches { self[Int32(index)] = Node(bits: 0, length: Int(Self.freeMark)) }
        }
        guard firstFree < 0 else { return takeNode(node) }
        nodeCount += 1
        let index = Int32(reservedBranches.removeFirst())
        self[index] = node
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
