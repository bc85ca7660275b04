// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem
import WireGuardCore

/// The two clocks whose times the engine receives.
enum SystemTime {
    /// The time of the lanes' clock, which also advances while the machine sleeps.
    static func now() -> Instant {
        Instant(nanoseconds: LaneClock.now())
    }

    /// The time since the Unix epoch.
    static func wall() -> WallTime {
        let (seconds, nanoseconds) = ProcessEnvironment.wallClock().quotientAndRemainder(dividingBy: 1_000_000_000)
        return WallTime(seconds: seconds, nanoseconds: UInt32(clamping: nanoseconds))
    }
}
