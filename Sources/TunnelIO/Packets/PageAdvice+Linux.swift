// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// Advice to the system about pages that are not needed now.
    package enum PageAdvice {
        /// Returns the pages to the system. They cost no memory until they are touched again, and are then zero.
        static func release(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, Int32(MADV_DONTNEED))
        }

        /// Does nothing: the process can use released pages by touching them.
        static func reclaim(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {}

        /// Returns the allocator's free pages to the system, if the allocator otherwise keeps them.
        package static func trimHeap() {
            ctunnel_trim_heap()
        }
    }
#endif
