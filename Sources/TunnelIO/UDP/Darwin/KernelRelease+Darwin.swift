// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    extension KernelRelease {
        /// None: this is not Linux.
        package static let running: KernelRelease? = nil
    }
#endif
