// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) || os(Android)
    import CTunnelSystem

    /// Advice to the system about pages that are not needed now.
    enum PageAdvice {
        /// The pages cost nothing until they are touched again, and are zero then.
        static func release(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, Int32(MADV_DONTNEED))
        }

        /// Touching them is enough.
        static func reclaim(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {}

        /// Gives the allocator's free pages back to the system, where the allocator keeps them by itself.
        static func trimHeap() {
            ctunnel_trim_heap()
        }
    }
#endif
