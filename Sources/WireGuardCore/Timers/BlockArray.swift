// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An array in blocks of the same size. An addition never moves more than the elements of one block, so that a long array
/// does not hold the engine when it grows.
struct BlockArray<Element> {
    private static var blockBits: Int { 10 }
    private static var blockCount: Int { 1 << blockBits }

    private var blocks: [[Element]] = []

    /// The number of elements.
    private(set) var count = 0

    /// The number of elements that fit into the present memory.
    var capacity: Int { blocks.reduce(0) { $0 + $1.capacity } }

    @inline(__always)
    subscript(index: Int) -> Element {
        get { blocks[index >> Self.blockBits][index & (Self.blockCount - 1)] }
        set { blocks[index >> Self.blockBits][index & (Self.blockCount - 1)] = newValue }
    }

    mutating func append(_ element: Element) {
        blocks[blockForNext()].append(element)
        count += 1
    }

    /// Appends copies of an element until the array has `count` elements.
    mutating func extend(to count: Int, with element: Element) {
        while self.count < count {
            let block = blockForNext()
            let added = min(Self.blockCount - blocks[block].count, count - self.count)
            blocks[block].append(contentsOf: repeatElement(element, count: added))
            self.count += added
        }
    }

    /// Returns the block of the next element, which has room for it.
    private mutating func blockForNext() -> Int {
        let block = count >> Self.blockBits
        if block == blocks.count {
            blocks.append([])
            // The first block grows with its elements, since most arrays have few.
            if block > 0 { blocks[block].reserveCapacity(Self.blockCount) }
        }
        return block
    }

    /// Removes the last element, which must exist, and returns it. One empty block stays, so that an array whose count
    /// alternates around the end of a block allocates no memory.
    mutating func removeLast() -> Element {
        count -= 1
        let block = count >> Self.blockBits
        let element = blocks[block].removeLast()
        if blocks[block].isEmpty, block + 1 < blocks.count { blocks.removeLast() }
        return element
    }
}

extension BlockArray: Sendable where Element: Sendable {}
