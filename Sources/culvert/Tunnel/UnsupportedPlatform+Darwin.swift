// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Apple's systems run tunnels as app extensions. They undo a tunnel's changes themselves, and hold leak policies by a profile's
// on-demand rules.

#if !os(Linux)
    import CommandLineSupport
    import PacketTunnel

    enum TunnelUp {
        static func servePrograms(_ arguments: [String]) -> Int32? { nil }

        static func readyCommand(_ arguments: [String]) -> UpCommand? { nil }

        static func run(_ command: UpCommand, console: Console) -> Int32 {
            console.problem("error: only Linux brings tunnels up from the command line")
            return ExitStatus.failure
        }
    }

    enum TunnelDown {
        static func run(
            _ name: String, _ runtime: RuntimeDirectory, reason: StopReason = .userInitiated
        ) async throws(CommandProblem) -> String {
            throw CommandProblem(ExitStatus.failure, "only Linux has tunnels of the command line")
        }
    }

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

    enum Cleanup {
        static func run(_ names: [String], _ runtime: RuntimeDirectory, console: Console) -> Int32 {
            console.problem("error: only Linux leaves a tunnel's changes behind; there is nothing to clean up here")
            return ExitStatus.failure
        }
    }
#endif
