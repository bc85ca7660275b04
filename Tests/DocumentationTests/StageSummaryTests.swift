// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) || os(macOS)
    import Foundation
    import Testing

    /// `dev/stages.bash`, which the scripts of this repository share.
    @Suite("The summary line of a script", .timeLimit(.minutes(1)))
    struct StageSummaryTests {
        @Test(
            "The line names the result: a script that SIGTERM ends was stopped with its programs, and has not passed",
            arguments: [
                ("true", 0, "demo: passed in"), ("exit 3", 3, "demo: FAILED with status 3"),
                ("kill -TERM $$", 143, "demo: STOPPED with status 143"),
                ("attend bash -c 'exit 3'", 3, "demo: FAILED with status 3"),
                // The programs have the pipe of the output, which this test reads until they have ended.
                (
                    "attend bash -c 'sleep 300 & kill -TERM $PPID; wait'", 143, "demo: STOPPED with status 143"
                ),
            ])
        func summary(command: String, status: Int32, line: String) throws {
            let process = Process()
            process.executableURL = URL(filePath: "/bin/bash")
            process.currentDirectoryURL = SampleTests.root
            process.arguments = [
                "-c", #"set -e; source dev/stages.bash; trap 'print_summary "$?" demo' EXIT; stage one; \#(command)"#,
            ]
            let output = Pipe()
            process.standardOutput = output
            try Self.unblocked(SIGTERM) { try process.run() }
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationStatus == status && process.terminationReason == .exit)
            let last = text.split(separator: "\n").last ?? ""
            #expect(last.hasPrefix(line) && last.contains("(one "), "\(text)")
        }

        /// Runs `body` on this thread with `signal` unblocked. A child inherits the mask of the thread that starts it, and the
        /// threads of a test block signals.
        private static func unblocked(_ signal: Int32, _ body: () throws -> Void) rethrows {
            var (signals, former) = (sigset_t(), sigset_t())
            unsafe sigemptyset(&signals)
            unsafe sigaddset(&signals, signal)
            unsafe pthread_sigmask(SIG_UNBLOCK, &signals, &former)
            defer { unsafe pthread_sigmask(SIG_SETMASK, &former, nil) }
            try body()
        }
    }
#endif
