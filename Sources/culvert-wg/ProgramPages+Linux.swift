// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The pages of the program itself.
    enum ProgramPages {
        /// Releases the pages used at the start: the linker's tables and code that runs once. They return from the page cache
        /// if they are needed.
        static func release() {
            ctunnel_release_code()
        }
    }
#endif
