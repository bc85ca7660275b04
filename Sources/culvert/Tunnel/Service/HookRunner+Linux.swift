// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import TunnelSystem

    /// Runs a command of a wg-quick file, as wg-quick(8) does: by bash(1).
    struct HookRunner: Sendable {
        /// The longest time that a command may take, in seconds.
        static let limit: Int64 = 60

        var logger: Logger
        /// Starts commands for this process.
        var programs: ProgramClient

        private static let shells = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]

        /// Returns the program, arguments and environment that run a command.
        static func command(_ text: String) -> ProgramScope.Command {
            let inherited = ProcessEnvironment.assignments(["PATH", "HOME", "LANG"])
            let shell = shells.first { isProgram($0) } ?? shells[0]
            // The output of programs is parsed, so they run in one locale.
            return ProgramScope.Command(
                shell, arguments: [shell, "-c", text], environment: inherited + ["LC_ALL=C"])
        }

        /// Runs a command to its end, on a separate thread. Its output goes to the log.
        /// - Throws: `.hostFailed` if it fails, takes too long or cannot be started; `.stopped` if the task is cancelled,
        ///   which also ends the command.
        func run(_ command: String) async throws(TunnelError) {
            let (programs, logger) = (programs, logger)
            try await BlockingWork.run("culvert-hook") { Self.result(command, programs, logger, $0) }.get()
        }

        private static func result(
            _ command: String, _ programs: ProgramClient, _ logger: Logger, _ cancellation: Int32
        ) -> Result<Void, TunnelError> {
            // A command may contain a password: it counts as a secret, and only its first word is shown.
            let word = command.split(separator: " ").first.map(String.init) ?? command
            func failure(_ text: String, fix: String = "correct it") -> Result<Void, TunnelError> {
                .failure(TunnelError(.hostFailed, "the file's command '\(word) …' \(text)", fix: fix))
            }
            guard let index = programs.scope.commands.firstIndex(where: { $0.arguments.last == command }) else {
                return failure(
                    "is not one of the commands that the tunnel was started with", fix: "take it down, and up again")
            }
            func log(_ outcome: ChildProcess.Outcome) {
                for line in outcome.output.split(separator: "\n") { logger.info("\(word): \(line)") }
            }
            switch programs.run(command: index, seconds: Int(limit), by: .commands, cancellation: cancellation) {
            case .ended(let outcome):
                log(outcome)
                guard outcome.status != 0 else { return .success(()) }
                return failure(
                    "ended with status \(outcome.status)" + (outcome.output.isEmpty ? "" : ": \(outcome.lastLine)"),
                    fix: "correct it, or see the log")
            case .interrupted(let outcome):
                log(outcome)
                return .failure(TunnelError(.stopped, "the file's command '\(word) …' was interrupted"))
            case .timedOut: return failure("took too long and was killed")
            case .notStarted(ENOENT):
                return .failure(
                    TunnelError(.hostFailed, "the file's commands need bash, which is not installed", fix: "install it")
                )
            case .notStarted(EPIPE):
                return failure(
                    "was interrupted: the process that runs programs has ended",
                    fix: "take the tunnel down, and up again")
            case .notStarted(let errno): return failure("cannot be run: \(SystemError.words(errno))")
            }
        }
    }

    private func isProgram(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
#endif
