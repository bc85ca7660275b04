// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

#if canImport(Darwin)
    /// `getrusage` counts in bytes.
    private let unit = 1
#else
    /// `getrusage` counts in kibibytes.
    private let unit = 1024
#endif
/// `RUSAGE_SELF`, whose type differs between C libraries.
private let selfUsage: Int32 = 0

/// The memory of this process, as the system counts it.
enum ProcessMemory {
    /// The most bytes that were resident at a time.
    static var peakResidentBytes: Int {
        var usage = rusage()
        unsafe getrusage(selfUsage, &usage)
        return Int(usage.ru_maxrss) * unit
    }
}
