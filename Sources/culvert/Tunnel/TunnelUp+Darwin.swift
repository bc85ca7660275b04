// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    import CommandLineSupport

    /// Elsewhere tunnels are app extensions.
    enum TunnelUp {
        static func run(_ command: UpCommand, console: Console) -> Int32 {
            console.problem("error: only Linux brings tunnels up from the command line")
            return ExitStatus.failure
        }
    }
#endif
