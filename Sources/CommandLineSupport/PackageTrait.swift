// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// This error is clearer than errors about missing modules.
#if !Programs
    #error("Culvert's programs are on a package trait: .package(url: ..., traits: [\"Programs\"])")
#endif
