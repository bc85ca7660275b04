// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Memory that ends at a protected page: reading or writing one byte beyond it is a crash.
@safe
final class GuardedBytes {
    // libFuzzer calls from one thread.
    nonisolated(unsafe) static let input = GuardedBytes()
    nonisolated(unsafe) static let output = GuardedBytes()

    private static let page = 65_536
    private static let capacity = 2 * page
    private let base: UnsafeMutableRawPointer

    private init() {
        let size = Self.capacity + Self.page
        let mapped = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let mapped = unsafe mapped, unsafe mapped != MAP_FAILED else { finding("no memory") }
        unsafe base = mapped
        guard unsafe mprotect(base + Self.capacity, Self.page, PROT_NONE) == 0 else { finding("no guard page") }
    }

    /// Lends `count` bytes that end at the guard.
    func lend<R>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> R) -> R {
        require(count <= Self.capacity, "\(count) bytes are more than any packet has")
        return unsafe body(UnsafeMutableRawBufferPointer(start: base + (Self.capacity - count), count: count))
    }

    /// Lends a copy of `bytes` that ends at the guard.
    func lend<R>(_ bytes: [UInt8], _ body: (UnsafeMutableRawBufferPointer) -> R) -> R {
        unsafe lend(bytes.count) { memory in
            unsafe memory.copyBytes(from: bytes)
            return unsafe body(memory)
        }
    }
}
