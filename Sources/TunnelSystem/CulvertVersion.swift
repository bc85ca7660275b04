// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The version of Culvert, which all programs and the C library report. `dev/check release` compares documents with it.
package enum CulvertVersion {
    package static let text: StaticString = "0.1.0"
}
