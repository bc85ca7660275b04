// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// `getrusage` counts in bytes.
    let residentUnit = 1
    let selfUsage = RUSAGE_SELF
#endif
