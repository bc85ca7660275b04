// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
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
