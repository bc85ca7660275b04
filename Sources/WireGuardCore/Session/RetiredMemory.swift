// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Memory that a table no longer uses. It is released with this object. That takes long, so the owner of the table can take
/// the object and release it without a lock.
package class RetiredMemory: @unchecked Sendable {
    fileprivate init() {}
}

/// A large block.
@safe
final class RetiredBlock: RetiredMemory, @unchecked Sendable {
    private let block: UnsafeMutableRawPointer

    init(_ block: UnsafeMutableRawPointer) { unsafe self.block = block }

    deinit { unsafe block.deallocate() }
}

/// A table with all its memory.
final class RetiredTable<Table: ~Copyable & Sendable>: RetiredMemory, @unchecked Sendable {
    private let table: Table

    init(_ table: consuming Table) { self.table = table }
}

extension [RetiredMemory] {
    /// Keeps memory until the owner takes it. At most two objects are kept: the addition of another releases the oldest one
    /// immediately, even if the caller holds a lock.
    mutating func retire(_ memory: RetiredMemory) {
        if count == 2 { removeFirst() }
        append(memory)
    }
}
