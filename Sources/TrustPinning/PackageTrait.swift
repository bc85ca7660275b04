// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Instead of missing modules, which say nothing about what to do.
#if !TrustPinning
    #error("TrustPinning is on a package trait: .package(url: ..., traits: [\"TrustPinning\"])")
#endif
