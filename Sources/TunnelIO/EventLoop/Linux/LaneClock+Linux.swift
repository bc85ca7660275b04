// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    extension LaneClock {
        /// Nanoseconds since the machine started, time asleep included.
        public static func now() -> Int64 {
            var time = timespec()
            unsafe clock_gettime(CLOCK_BOOTTIME, &time)
            return Int64(time.tv_sec) &* nanosecondsPerSecond &+ Int64(time.tv_nsec)
        }
    }
#endif
