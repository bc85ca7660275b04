// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Instead of missing modules, which say nothing about what to do.
#if !Gateway
    #error("Gateway is on a package trait: .package(url: ..., traits: [\"Gateway\"])")
#endif
