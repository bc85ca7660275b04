// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// Advice to the system about pages that are not needed now.
    package enum PageAdvice {
        /// Removes the pages from the process's footprint immediately; the system may free them at any time.
        static func release(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, MADV_FREE_REUSABLE)
        }

        /// Adds the pages to the process's footprint again. Their content is undefined or zero.
        static func reclaim(_ base: UnsafeMutableRawPointer, _ byteCount: Int) {
            _ = unsafe madvise(base, byteCount, MADV_FREE_REUSE)
        }

        /// Gives the allocator's free pages back to the system.
        package static func trimHeap() {
            _ = malloc_zone_pressure_relief(nil, 0)
        }
    }
#endif
