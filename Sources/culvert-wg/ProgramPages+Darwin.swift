// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The pages of the program itself.
    enum ProgramPages {
        /// Nothing to do: clean pages of files are not counted as the process's.
        static func release() {}
    }
#endif
