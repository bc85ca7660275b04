// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) || os(Android)
    /// `getrusage` counts in kibibytes.
    let residentUnit = 1024
    /// `RUSAGE_SELF`, whose type differs between C libraries.
    let selfUsage: Int32 = 0
#endif
