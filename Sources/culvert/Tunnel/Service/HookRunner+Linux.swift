// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import TunnelIO

    /// Runs a command of a wg-quick file, as wg-quick(8) does: by bash(1).
    struct HookRunner: Sendable {
        /// How long a command may take.
        static let limit: Int64 = 60

        var logger: Logger
        var shells = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]

        /// Runs a command to its end, on a thread of its own. What it writes goes to the log.
        /// - Throws: `.hostFailed` when it fails, takes too long or cannot be started; `.stopped` when the task is cancelled,
        ///   and the command with it.
        func run(_ command: String) async throws(TunnelError) {
            let (shells, logger) = (shells, logger)
            try await BlockingWork.run("culvert-hook") { Self.result(command, shells, logger, $0) }.get()
        }

        private static func result(
            _ command: String, _ shells: [String], _ logger: Logger, _ cancellation: Int32
        ) -> Result<Void, TunnelError> {
            // A command may hold a password: it is counted among the secrets, and only its first word is told.
            let word = command.split(separator: " ").first.map(String.init) ?? command
            guard let shell = shells.first(where: { isProgram($0) }) else {
                return .failure(
                    TunnelError(.hostFailed, "the file's commands need bash, which is not installed", fix: "install it")
                )
            }
            do throws(DemoFailure) {
                let child = try ChildProcess([shell, "-c", command])
                let ending = child.wait(
                    until: LaneClock.now() + limit * LaneClock.nanosecondsPerSecond, interruption: cancellation)
                let outcome: ChildProcess.Outcome
                switch ending {
                case .ended(let ended): outcome = ended
                case .interrupted: outcome = child.stop()
                case .timedOut:
                    child.destroy()
                    throw DemoFailure("took too long and was killed")
                }
                for line in outcome.output.split(separator: "\n") { logger.info("\(word): \(line)") }
                guard outcome.status != 0 else { return .success(()) }
                if case .interrupted = ending {
                    return .failure(TunnelError(.stopped, "the file's command '\(word) …' was interrupted"))
                }
                return .failure(
                    TunnelError(
                        .hostFailed,
                        "the file's command '\(word) …' ended with status \(outcome.status)"
                            + (outcome.output.isEmpty ? "" : ": \(outcome.lastLine)"),
                        fix: "correct it, or see the log"))
            } catch {
                return .failure(
                    TunnelError(.hostFailed, "the file's command '\(word) …': \(error)", fix: "correct it"))
            }
        }
    }

    private func isProgram(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
#endif
