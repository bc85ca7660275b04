// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The executor that runs the tasks of this process.
    package enum DefaultExecutor {
        /// Does nothing: the system's executor does not wake an idle process.
        package static func replace() {}
    }
#endif
