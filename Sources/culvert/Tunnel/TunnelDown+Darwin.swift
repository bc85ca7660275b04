// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    /// Elsewhere tunnels are app extensions.
    enum TunnelDown {
        static func run(_ name: String, _ runtime: RuntimeDirectory) async throws(CommandProblem) -> String {
            throw CommandProblem(ExitStatus.failure, "only Linux has tunnels of the command line")
        }
    }
#endif
