// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The clock of lanes and event loops: it goes forward only, and counts while the machine sleeps.
public enum LaneClock {
    /// Nanoseconds since the machine started, time asleep included.
    public static func now() -> Int64 {
        var time = timespec()
        #if canImport(Darwin)
            unsafe clock_gettime(CLOCK_MONOTONIC_RAW, &time)
        #else
            unsafe clock_gettime(CLOCK_BOOTTIME, &time)
        #endif
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
