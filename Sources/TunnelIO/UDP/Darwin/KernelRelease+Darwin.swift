// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    extension KernelRelease {
        /// Always `nil`: this platform has no Linux kernel.
        package static let running: KernelRelease? = nil
    }
#endif
