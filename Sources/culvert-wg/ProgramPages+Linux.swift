// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The pages of the program itself.
    enum ProgramPages {
        /// Lets go of what starting up has used: the linker's tables and code that runs once. What is needed comes back from
        /// the page cache.
        static func release() {
            ctunnel_release_code()
        }
    }
#endif
