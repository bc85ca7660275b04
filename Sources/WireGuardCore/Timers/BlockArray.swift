// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An array in blocks of the same size. An addition never moves more than the elements of one block, so that a long array
/// does not hold the engine when it grows.
///
/// The blocks are plain memory, since an array of arrays checks both for other owners at each change.
@safe
struct BlockArray<Element: BitwiseCopyable>: ~Copyable {
    private static var blockBits: Int { 10 }
    private static var blockCount: Int { 1 << blockBits }
    private static var smallestCapacity: Int { 8 }

    private var blocks: ContiguousArray<UnsafeMutablePointer<Element>> = unsafe []
    /// The number of elements for which the first block has memory. It grows, since most arrays have few elements.
    private var firstCapacity = 0

    /// The number of elements.
    private(set) var count = 0

    init() {}

    deinit {
        for index in unsafe blocks.indices { unsafe blocks[index].deallocate() }
    }

    /// The number of elements that fit into the present memory.
    var capacity: Int { unsafe firstCapacity + max(blocks.count - 1, 0) * Self.blockCount }

    @inline(__always)
    subscript(index: Int) -> Element {
        get { unsafe element(index).pointee }
        set { unsafe element(index).pointee = newValue }
    }

    @unsafe
    @inline(__always)
    private func element(_ index: Int) -> UnsafeMutablePointer<Element> {
        precondition(index >= 0 && index < count)
        return unsafe blocks[index >> Self.blockBits] + (index & (Self.blockCount - 1))
    }

    mutating func append(_ element: Element) { extend(to: count + 1, with: element) }

    /// Appends copies of an element until the array has `count` elements.
    mutating func extend(to count: Int, with element: Element) {
        while self.count < count {
            let block = blockForNext()
            let used = self.count & (Self.blockCount - 1)
            let added = min((block == 0 ? firstCapacity : Self.blockCount) - used, count - self.count)
            unsafe (blocks[block] + used).initialize(repeating: element, count: added)
            self.count += added
        }
    }

    /// Returns the block of the next element, which has room for it.
    private mutating func blockForNext() -> Int {
        let block = count >> Self.blockBits
        if block == 0, count == firstCapacity {
            let capacity = min(max(2 * firstCapacity, Self.smallestCapacity), Self.blockCount)
            let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity)
            if let first = unsafe blocks.first {
                unsafe larger.moveInitialize(from: first, count: count)
                unsafe first.deallocate()
                unsafe blocks[0] = larger
            } else {
                unsafe blocks.append(larger)
            }
            firstCapacity = capacity
        } else if unsafe block == blocks.count {
            unsafe blocks.append(.allocate(capacity: Self.blockCount))
        }
        return block
    }

    /// Removes the last element, which must exist, and returns it. One empty block stays, so that an array whose count
    /// alternates around the end of a block allocates no memory.
    mutating func removeLast() -> Element {
        let element = self[count - 1]
        count -= 1
        let block = count >> Self.blockBits
        if count & (Self.blockCount - 1) == 0, unsafe block + 1 < blocks.count {
            unsafe blocks.removeLast().deallocate()
        }
        return element
    }
}

// The array is the only owner of its memory.
extension BlockArray: @unchecked Sendable where Element: Sendable {}
