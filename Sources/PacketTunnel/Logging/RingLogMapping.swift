// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization

/// A log file in memory, shared with other processes that map it.
///
/// Bytes may change at any time under a reader; whoever copies them out checks what came.
@safe
final class RingLogMapping: @unchecked Sendable {
    private let base: UnsafeMutableRawPointer
    private let byteCount: Int

    /// Maps `byteCount` bytes of a file, which it must have.
    init(descriptor: Int32, byteCount: Int, isWritable: Bool, path: String) throws(RingLogError) {
        let protection = isWritable ? PROT_READ | PROT_WRITE : PROT_READ
        let region = unsafe mmap(nil, byteCount, protection, MAP_SHARED, descriptor, 0)
        guard let region = unsafe region, unsafe region != MAP_FAILED else {
            throw .system(path: path, operation: "mmap", errno: errno)
        }
        unsafe base = region
        self.byteCount = byteCount
    }

    deinit {
        unsafe _ = munmap(base, byteCount)
    }

    /// Copies bytes out; none when the range is not in the file.
    func read(_ count: Int, at offset: Int) -> [UInt8] {
        guard offset >= 0, count >= 0, offset <= byteCount - count else { return [] }
        return unsafe Array(UnsafeRawBufferPointer(start: base + offset, count: count))
    }

    /// Copies bytes in, if the range is in the file.
    func write(_ bytes: ArraySlice<UInt8>, at offset: Int) {
        guard offset >= 0, offset <= byteCount - bytes.count else { return }
        unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress else { return }
            unsafe (base + offset).copyMemory(from: start, byteCount: source.count)
        }
    }

    // MARK: - The two words that all processes change

    /// Hands out `count` sequence numbers; returns the first.
    func reserve(_ count: Int) -> UInt64 {
        unsafe word(RingLogGeometry.lastSequenceOffset).pointee
            .wrappingAdd(UInt64(count), ordering: .acquiringAndReleasing).oldValue &+ 1
    }

    /// The last sequence number handed out.
    var lastSequence: UInt64 {
        get { unsafe word(RingLogGeometry.lastSequenceOffset).pointee.load(ordering: .acquiring) }
        set { unsafe word(RingLogGeometry.lastSequenceOffset).pointee.store(newValue, ordering: .releasing) }
    }

    /// The last sequence number that was cleared away.
    var cleared: UInt64 {
        get { unsafe word(RingLogGeometry.clearedOffset).pointee.load(ordering: .acquiring) }
        set { unsafe word(RingLogGeometry.clearedOffset).pointee.store(newValue, ordering: .releasing) }
    }

    private func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
    }
}
