// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The clock of lanes and event loops. It is monotonic, and counts while the machine sleeps.
///
/// `now()` is the platform's clock: the nanoseconds since the machine started, including time asleep.
public enum LaneClock {
    package static let nanosecondsPerSecond: Int64 = 1_000_000_000
}

extension Duration {
    /// In nanoseconds, from zero to 136 years, so that the sum with a time of ``LaneClock`` does not overflow.
    var laneNanoseconds: Int64 {
        let (seconds, attoseconds) = min(max(self, .zero), .seconds(1 << 32)).components
        return seconds * LaneClock.nanosecondsPerSecond + attoseconds / LaneClock.nanosecondsPerSecond
    }
}
