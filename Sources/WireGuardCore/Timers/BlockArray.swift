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
        if count & (Self.blockCount - 1) == 0 {
            blocks.append([])
            // The first block grows with its elements, since most arrays have few.
            if count > 0 { blocks[blocks.count - 1].reserveCapacity(Self.blockCount) }
        }
        blocks[blocks.count - 1].append(element)
        count += 1
    }

    /// Appends copies of an element until the array has `count` elements.
    mutating func extend(to count: Int, with element: Element) {
        while self.count < count { append(element) }
    }

    /// Removes the last element, which must exist, and returns it.
    mutating func removeLast() -> Element {
        let element = blocks[blocks.count - 1].removeLast()
        count -= 1
        if blocks[blocks.count - 1].isEmpty { blocks.removeLast() }
        return element
    }
}

extension BlockArray: Sendable where Element: Sendable {}
