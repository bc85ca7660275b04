// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnelTesting
    import Testing

    @testable import PacketTunnelLinux

    @Suite(
        "Locks of processes in other mount namespaces", .serialized, .enabled(if: Privileged.isAvailable),
        .timeLimit(.minutes(2)))
    struct LockNamespaceTests {
        /// Starts a process in a separate mount namespace that has the lock of the file at `path`.
        private func lock(_ path: String, after command: String = "true") throws -> SpawnedProcess {
            let script = "\(command) && exec flock --no-fork \(path) sh -c 'echo locked; exec sleep 1000'"
            let process = try SpawnedProcess(["unshare", "--mount", "sh", "-c", script])
            try process.waitForOutput(containing: "locked")
            return process
        }

        /// `culvert down office` on a host ended the tunnel of this name in a container, whose lock had the same path.
        @Test("A lock with the same path in a container is another lock", arguments: [false, true])
        func container(isDeleted: Bool) throws {
            let folder = try TemporaryFolder()
            let path = "\(folder.path)/office.sock.lock"
            let holder = try lock(path, after: "mount -t tmpfs tmpfs \(folder.path)")
            defer { holder.kill() }
            if !isDeleted { try Data().write(to: URL(fileURLWithPath: path)) }
            #expect(LockHolder.find(path) == nil)
        }

        @Test("A process with a separate mount namespace, such as that of a systemd unit, is found by a deleted lock")
        func unit() throws {
            let folder = try TemporaryFolder()
            let path = "\(folder.path)/office.sock.lock"
            let holder = try lock(path)
            defer { holder.kill() }
            #expect(LockHolder.find(path)?.process == holder.processID)
            try FileManager.default.removeItem(atPath: path)
            #expect(LockHolder.find(path)?.process == holder.processID)
        }
    }
#endif
