// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Logging
    import PacketTunnel
    import Synchronization
    import TunnelIO

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

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
            let cancellation = Cancellation()
            let result: Result<Void, TunnelError> = await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    do throws(TunnelIOError) {
                        _ = try LoopThread(name: "culvert-hook") {
                            continuation.resume(returning: Self.result(command, shells, logger, cancellation))
                        }
                    } catch {
                        continuation.resume(returning: .failure(TunnelError(.hostFailed, "\(error)")))
                    }
                }
            } onCancel: {
                cancellation.isRequested.store(true, ordering: .relaxed)
            }
            try result.get()
        }

        private final class Cancellation: Sendable {
            let isRequested = Atomic(false)
        }

        private static func result(
            _ command: String, _ shells: [String], _ logger: Logger, _ cancellation: Cancellation
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
                let outcome = try child.waitForExit(until: LaneClock.now() + limit * 1_000_000_000) {
                    cancellation.isRequested.load(ordering: .relaxed)
                }
                for line in outcome.text.split(separator: "\n") { logger.info("\(word): \(line)") }
                guard outcome.exitStatus == 0 else {
                    if let error = interruption(word, cancellation) { return .failure(error) }
                    return .failure(
                        TunnelError(
                            .hostFailed,
                            "the file's command '\(word) …' ended with status \(outcome.exitStatus)"
                                + (outcome.text.isEmpty ? "" : ": \(child.lastLine)"),
                            fix: "correct it, or see the log"))
                }
                return .success(())
            } catch {
                if let error = interruption(word, cancellation) { return .failure(error) }
                return .failure(
                    TunnelError(.hostFailed, "the file's command '\(word) …': \(error)", fix: "correct it"))
            }
        }

        private static func interruption(_ word: String, _ cancellation: Cancellation) -> TunnelError? {
            guard cancellation.isRequested.load(ordering: .relaxed) else { return nil }
            return TunnelError(.stopped, "the file's command '\(word) …' was interrupted")
        }
    }

    private func isProgram(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
#endif
