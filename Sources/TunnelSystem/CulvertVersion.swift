// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The version of all of Culvert: what programs and the C library say. `dev/check release` holds documents against it.
package enum CulvertVersion {
    package static let text: StaticString = "0.1.0"
}
