// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    import CommandLineSupport

    /// Elsewhere the system undoes what a tunnel changed.
    enum Cleanup {
        static func run(_ names: [String], _ runtime: RuntimeDirectory, console: Console) -> Int32 {
            console.problem("error: only Linux leaves a tunnel's changes behind; there is nothing to clean up here")
            return ExitStatus.failure
        }
    }
#endif
