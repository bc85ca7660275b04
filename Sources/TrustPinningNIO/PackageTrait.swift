// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Instead of missing modules, which say nothing about what to do.
#if !TrustPinningNIO
    #error("TrustPinningNIO is on a package trait: .package(url: ..., traits: [\"TrustPinningNIO\"])")
#endif
