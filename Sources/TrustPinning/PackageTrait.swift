// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// State the fix, because the compiler alone would only report missing modules.
#if !TrustPinning
    #error("TrustPinning is on a package trait: .package(url: ..., traits: [\"TrustPinning\"])")
#endif
