// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    import CommandLineSupport
    import PacketTunnel

    /// Elsewhere tunnels are app extensions.
    enum TunnelDown {
        static func run(
            _ name: String, _ runtime: RuntimeDirectory, reason: StopReason = .userInitiated
        ) async throws(CommandProblem) -> String {
            throw CommandProblem(ExitStatus.failure, "only Linux has tunnels of the command line")
        }
    }
#endif
