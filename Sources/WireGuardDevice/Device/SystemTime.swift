// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import WireGuardCore

/// The two clocks that the engine is fed from.
enum SystemTime {
    /// The lanes' clock, which counts while the machine sleeps.
    static func now() -> Instant {
        Instant(nanoseconds: LaneClock.now())
    }

    /// The time since the Unix epoch.
    static func wall() -> WallTime {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(seconds: Int64(time.tv_sec), nanoseconds: UInt32(clamping: time.tv_nsec))
    }
}
