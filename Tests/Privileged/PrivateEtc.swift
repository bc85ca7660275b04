// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A copy of /etc in its place, and a resolvconf without records, until this object is released: only in a sandbox with
    /// separate mounts (scripts/sandbox).
    final class PrivateEtc {
        /// Whether this is such a sandbox, and resolvconf is openresolv's.
        static let isPossible: Bool = {
            let first = (try? String(contentsOfFile: "/proc/1/cmdline", encoding: .utf8)) ?? ""
            let version = (try? PrivilegedTests.runAllowingFailure(["resolvconf", "--version"]))?.output ?? ""
            return first.contains("sandbox") && version.hasPrefix("openresolv")
        }()

        private let folder: String
        /// resolvconf's records of interfaces: those that one test left would be the name servers of all later ones.
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

    /// The lock of openresolv, held by a process that has nothing to do with it; within a `PrivateEtc`.
    final class ResolvconfLock {
        private static let folder = "/run/resolvconf/lock"
        private let holder: SpawnedProcess

        /// - Parameter tries: The number of tries, a second apart, after which other processes give up.
        init(tries: Int = 1) throws {
            try "lock_timeout=\(tries)\n".write(toFile: "/etc/resolvconf.conf", atomically: false, encoding: .utf8)
            holder = try SpawnedProcess(["sleep", "1000"])
            try FileManager.default.createDirectory(atPath: Self.folder, withIntermediateDirectories: true)
            try "\(holder.processID)\n".write(toFile: Self.folder + "/pid", atomically: false, encoding: .utf8)
        }

        func release() throws { try FileManager.default.removeItem(atPath: Self.folder) }
    }
#endif
