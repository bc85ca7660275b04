// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CommandLineTesting
    import Foundation
    import Testing

    @testable import PacketTunnel
    @testable import PacketTunnelLinux
    @testable import culvert

    @Suite("culvert cleanup")
    struct CleanupTests {
        /// A folder with the journal of a tunnel that made an interface.
        private final class Left {
            let folder = "/dev/shm/culvert-\(UUID().uuidString)"
            var options: LinuxHostOptions { LinuxHostOptions(journalFolder: folder) }

            init(owner: JournalOwner) throws {
                let journal = try ChangeJournal(
                    name: "one", directory: JournalDirectory(path: folder), owner: owner)
                _ = try journal.record([(.interface(name: "one"), .nothing)])
            }

            deinit { try? FileManager.default.removeItem(atPath: folder) }

            var hasJournal: Bool { FileManager.default.fileExists(atPath: folder + "/one.journal") }
        }

        private static let dead = JournalOwner(processID: 1, startTime: .max)

        @Test("The changes of a tunnel that died are undone once", arguments: [[], ["one"]])
        func undone(_ names: [String]) throws {
            let left = try Left(owner: Self.dead)
            let captured = CapturedConsole()
            #expect(Cleanup.run(names, options: left.options, console: captured.console()) == ExitStatus.success)
            #expect(captured.output == "one: undone:\n  interface one\n")
            #expect(!left.hasJournal)
            let again = CapturedConsole()
            #expect(Cleanup.run(["one"], options: left.options, console: again.console()) == ExitStatus.success)
            #expect(again.output == "one: nothing to undo\n")
        }

        @Test("A running tunnel is unchanged: silently among all, with an error by its name")
        func running() throws {
            let left = try Left(owner: .current)
            let captured = CapturedConsole()
            #expect(Cleanup.run([], options: left.options, console: captured.console()) == ExitStatus.success)
            #expect(captured.output.isEmpty && captured.error.isEmpty)
            #expect(Cleanup.run(["one"], options: left.options, console: captured.console()) == ExitStatus.failure)
            #expect(captured.error.contains("tunnel 'one' is running as process \(getpid()); stop it first"))
            #expect(left.hasJournal)
        }

        @Test("The command refuses an invalid name as wrong usage, and reports that there is no tunnel")
        func command() throws {
            let left = try Left(owner: Self.dead)
            let captured = CapturedConsole()
            let runtime = RuntimeDirectory(path: left.folder)
            #expect(Cleanup.run(["a/b"], runtime, console: captured.console()) == ExitStatus.usage)
            #expect(Cleanup.run([], runtime, console: captured.console()) == ExitStatus.success)
            #expect(captured.output == "one: undone:\n  interface one\n")
            #expect(Cleanup.run([], runtime, console: captured.console()) == ExitStatus.success)
            #expect(captured.output.hasSuffix("\nnothing to undo\n"))
        }

        @Test("An invalid name is refused")
        func names() throws {
            let left = try Left(owner: Self.dead)
            let captured = CapturedConsole()
            #expect(Cleanup.run(["../x"], options: left.options, console: captured.console()) == ExitStatus.failure)
            #expect(captured.error.contains("'../x' is not a valid tunnel name"))
        }
    }
#endif
