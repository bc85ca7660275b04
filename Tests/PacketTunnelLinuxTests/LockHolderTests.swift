// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Foundation
    import PacketTunnelTesting
    import Testing
    import TunnelIO

    @testable import PacketTunnelLinux

    @Suite("Locks that another process keeps", .timeLimit(.minutes(1)))
    struct LockHolderTests {
        /// A process that has the lock of the file or folder at `path`, and a child that has it too.
        private func lock(_ path: String) throws -> ChildProcess {
            let child = try ChildProcess(
                "flock", isSearched: true, arguments: ["flock", path, "sh", "-c", "echo locked; sleep 1000; true"],
                environment: ["PATH=/usr/bin:/bin"])
            let deadline = LaneClock.now() + 30 * LaneClock.nanosecondsPerSecond
            let ending = child.wait(forOutput: "locked", until: deadline)
            try #require(ending == nil, "flock(1) has the lock")
            return child
        }

        /// A stopped process kept the folder locked, and 'culvert up' of another tunnel waited for minutes.
        @Test("While a stopped process has the folder's lock, a change fails in limited time and names that process")
        func stopped() throws {
            let folder = try JournalFolder()
            var directory = folder.directory
            try directory.prepare()
            let child = try lock(directory.path)
            kill(-child.id, SIGSTOP)
            directory.lockLimit = .milliseconds(50)
            let error = #expect(throws: LinuxNetworkError.self) { try directory.locked {} }
            #expect(error?.errno == EWOULDBLOCK)
            let text = error?.description ?? ""
            #expect(text.contains("which process ") && text.contains(" (stopped) has kept locked for 0.05 seconds"))
            child.destroy()
            directory.lockLimit = .seconds(30)
            #expect(try directory.locked { 7 } == 7)
        }

        @Test("After a wait in vain the next waits for the lock are short, and the error counts the time of all")
        func laterWaits() throws {
            let folder = try JournalFolder()
            var directory = folder.directory
            try directory.prepare()
            let child = try lock(directory.path)
            directory.lockLimit = .seconds(2)
            #expect(throws: LinuxNetworkError.self) { try directory.locked {} }
            directory.lockLimit = .seconds(30)
            let began = ContinuousClock.now
            let error = #expect(throws: LinuxNetworkError.self) { try directory.locked {} }
            #expect(ContinuousClock.now - began < .seconds(15))
            let text = error?.description ?? ""
            #expect(try lockedSeconds(text) >= 3, "\(text)")
            let found = try #require(LockHolder.find(path(of: folder)))
            #expect(error?.description.contains("process \(found.process)") == true)
            child.destroy()
            #expect(waitUntil(timeout: .seconds(30)) { LockHolder.find(path(of: folder)) == nil })
            #expect(try directory.locked { 7 } == 7)
        }

        /// The seconds for which a process has kept the lock, as an error names them.
        private func lockedSeconds(_ text: String) throws -> Double {
            let parts = text.components(separatedBy: "has kept locked for ")
            return try #require(parts.last?.split(separator: " ").first.flatMap { Double($0) })
        }

        private func path(of folder: JournalFolder) -> String { folder.directory.path }

        @Test("A tunnel's own changes are undone even if other users can write to the folder of journals")
        func distrust() throws {
            let folder = try JournalFolder()
            let network = FakeNetwork(try LinuxSamples.network())
            let before = network.state
            let ledger = try ChangeLedger(name: "cvt0", directory: folder.directory, system: network)
            try ledger.apply(try LinuxSamples.plan())
            #expect(unsafe chmod(folder.directory.path, 0o777) == 0)
            let error = #expect(throws: LinuxNetworkError.self) { try folder.directory.locked {} }
            #expect(error?.description.contains("'chmod 0700 \(folder.directory.path)'") == true)
            try ledger.undoAll()
            #expect(network.state == before)
        }

        @Test("The holder of a lock is found by the file's name, in any folder")
        func movedFolder() throws {
            let folder = try JournalFolder()
            try folder.directory.prepare()
            let child = try lock(folder.directory.path + "/cvt9.sock.lock")
            let found = try #require(LockHolder.find(fileName: "cvt9.sock.lock"))
            #expect(found.folder == folder.directory.path)
            #expect(LockHolder.find(fileName: "t9.sock.lock") == nil)
            // Only root can give a folder to another user.
            if geteuid() == 0 {
                #expect(unsafe chown(folder.directory.path, 12_345, 12_345) == 0)
                #expect(LockHolder.find(fileName: "cvt9.sock.lock") == nil)
            }
            child.destroy()
        }

        @Test("The holder of a lock is found even when the file and its folder were deleted")
        func deleted() throws {
            let folder = try JournalFolder()
            try folder.directory.prepare()
            let path = folder.directory.path + "/cvt0.sock.lock"
            #expect(LockHolder.find(path) == nil)
            let child = try lock(path)
            let holder = try #require(LockHolder.find(path))
            #expect(!holder.isStopped)
            let isDeleted = unsafe unlink(path) == 0 && rmdir(folder.directory.path) == 0
            #expect(isDeleted)
            #expect(LockHolder.find(path)?.process == holder.process)
            child.destroy()
            let deadline = LaneClock.now() + 30 * LaneClock.nanosecondsPerSecond
            #expect(ChildProcess.wait(forEndOf: holder.process, until: deadline))
            // Its child has the lock too, and ends by itself.
            #expect(waitUntil(timeout: .seconds(30)) { LockHolder.find(path) == nil })
        }
    }
#endif
