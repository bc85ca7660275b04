// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The memory pages of the program's own code and tables.
    enum ProgramPages {
        /// Does nothing, because Darwin does not count clean file pages as memory of the process.
        static func release() {}
    }
#endif
