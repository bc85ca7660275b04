// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The clock of lanes and event loops: it goes forward only, and counts while the machine sleeps.
///
/// `now()` is the platform's: nanoseconds since the machine started, time asleep included.
public enum LaneClock {
    package static let nanosecondsPerSecond: Int64 = 1_000_000_000
}
