// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if !os(Linux)
    import CommandLineSupport

    /// Elsewhere the system holds policies itself, by a profile's on-demand rules.
    enum TunnelGuard {
        static func hold(
            _ tunnel: LoadedTunnel, _ runtime: RuntimeDirectory, _ console: Console
        ) throws(CommandProblem) { throw unavailable }

        static func isLoaded(_ name: String) -> Bool? { nil }

        static func release(
            _ name: String, _ runtime: RuntimeDirectory, _ console: Console
        ) throws(CommandProblem) { throw unavailable }

        private static let unavailable = CommandProblem(
            ExitStatus.failure, "only Linux has leak policies that hold without a tunnel")
    }
#endif
