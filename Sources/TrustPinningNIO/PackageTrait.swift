// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Explains the fix: otherwise, the compiler would only report missing modules.
#if !TrustPinningNIO
    #error("TrustPinningNIO is on a package trait: .package(url: ..., traits: [\"TrustPinningNIO\"])")
#endif
