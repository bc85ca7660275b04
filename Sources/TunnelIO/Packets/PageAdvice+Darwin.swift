// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// What the system is told of pages that are not needed for now.
    enum PageAdvice {
        /// The pages leave the process's footprint at once, and may go whenever the system wants them.
        static func release(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, MADV_FREE_REUSABLE)
        }

        /// The pages count as the process's again; what is in them is anything or zero.
        static func reclaim(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, MADV_FREE_REUSE)
        }

        /// Gives the allocator's free pages back to the system.
        static func trimHeap() {
            _ = malloc_zone_pressure_relief(nil, 0)
        }
    }
#endif
