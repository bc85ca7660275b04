// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// What the system says of this process's memory.
enum ProcessMemory {
    /// The most bytes that were resident at a time.
    static var peakResidentBytes: Int {
        var usage = rusage()
        unsafe getrusage(selfUsage, &usage)
        return Int(usage.ru_maxrss) * residentUnit
    }
}
