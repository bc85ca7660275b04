// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// Replaces /etc by a copy, and removes resolvconf's records, until this object is released. It needs a sandbox
    /// with separate mounts (scripts/sandbox).
    final class PrivateEtc {
        /// Whether this is such a sandbox, and resolvconf is openresolv's.
        static let isPossible: Bool = {
            let first = (try? String(contentsOfFile: "/proc/1/cmdline", encoding: .utf8)) ?? ""
            let version = (try? PrivilegedTests.runAllowingFailure(["resolvconf", "--version"]))?.output ?? ""
            return first.contains("sandbox") && version.hasPrefix("openresolv")
        }()

        private let folder: String
        /// resolvconf's records of interfaces. Records that one test leaves would provide the name servers of all later
        /// tests.
        private static let records = "/run/resolvconf"

        init(resolvConf: String) throws {
            folder = "/run/culvert-etc-\(UUID().uuidString)"
            try PrivilegedTests.run(["cp", "-a", "/etc", folder])
            try PrivilegedTests.run(["mount", "--bind", folder, "/etc"])
            try? FileManager.default.removeItem(atPath: Self.records)
            try resolvConf.write(toFile: "/etc/resolv.conf", atomically: false, encoding: .utf8)
        }

        deinit {
            _ = try? PrivilegedTests.run(["umount", "/etc"])
            try? FileManager.default.removeItem(atPath: folder)
            try? FileManager.default.removeItem(atPath: Self.records)
        }
    }

    /// openresolv's lock, held by an unrelated process; within a `PrivateEtc`.
    final class ResolvconfLock {
        private static let folder = "/run/resolvconf/lock"
        private let holder: SpawnedProcess

        /// - Parameter tries: The number of attempts, one second apart, after which other processes fail.
        init(tries: Int = 1) throws {
            try "lock_timeout=\(tries)\n".write(toFile: "/etc/resolvconf.conf", atomically: false, encoding: .utf8)
            holder = try SpawnedProcess(["sleep", "1000"])
            try FileManager.default.createDirectory(atPath: Self.folder, withIntermediateDirectories: true)
            try "\(holder.processID)\n".write(toFile: Self.folder + "/pid", atomically: false, encoding: .utf8)
        }

        func release() throws { try FileManager.default.removeItem(atPath: Self.folder) }
    }
#endif
