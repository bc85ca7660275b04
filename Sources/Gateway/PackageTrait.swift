// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// This error is clearer than errors about missing modules.
#if !Gateway
    #error("Gateway is on a package trait: .package(url: ..., traits: [\"Gateway\"])")
#endif
