// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem
import WireGuardCore

/// The two clocks that the engine is fed from.
enum SystemTime {
    /// The lanes' clock, which counts while the machine sleeps.
    static func now() -> Instant {
        Instant(nanoseconds: LaneClock.now())
    }

    /// The time since the Unix epoch.
    static func wall() -> WallTime {
        let (seconds, nanoseconds) = ProcessEnvironment.wallClock().quotientAndRemainder(dividingBy: 1_000_000_000)
        return WallTime(seconds: seconds, nanoseconds: UInt32(clamping: nanoseconds))
    }
}
