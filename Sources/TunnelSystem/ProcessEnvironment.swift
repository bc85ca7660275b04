// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// The environment of this process.
package enum ProcessEnvironment {
    /// The value of a variable.
    package static func value(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    /// The variables with these names that are set, as `NAME=VALUE`: the environment of a child process.
    package static func assignments(_ names: [String]) -> [String] {
        names.compactMap { name in value(name).map { "\(name)=\($0)" } }
    }

    /// The wall clock: nanoseconds since 1970.
    package static func wallClock() -> Int64 {
        var time = timespec()
        guard unsafe clock_gettime(CLOCK_REALTIME, &time) == 0 else { return 0 }
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
