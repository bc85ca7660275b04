// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The memory pages of the program's own code and tables.
    enum ProgramPages {
        /// Releases the pages that were used only at the start: the linker's tables, and code that runs once. The
        /// kernel reads them from the page cache if they are needed again.
        static func release() {
            ctunnel_release_code()
        }
    }
#endif
