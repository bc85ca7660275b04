// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The clock of lanes and event loops. It is monotonic, and counts while the machine sleeps.
///
/// `now()` is the platform's clock: the nanoseconds since the machine started, including time asleep.
public enum LaneClock {
    package static let nanosecondsPerSecond: Int64 = 1_000_000_000
}
