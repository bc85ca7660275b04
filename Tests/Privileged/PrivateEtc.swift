// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A copy of /etc in place of it, until this object goes: only in a sandbox with mounts of its own (scripts/sandbox).
    final class PrivateEtc {
        /// Whether this is such a sandbox, and resolvconf is openresolv's.
        static let isPossible: Bool = {
            let first = (try? String(contentsOfFile: "/proc/1/cmdline", encoding: .utf8)) ?? ""
            let version = (try? PrivilegedTests.runAllowingFailure(["resolvconf", "--version"]))?.output ?? ""
            return first.contains("sandbox") && version.hasPrefix("openresolv")
        }()

        private let folder: String

        init(resolvConf: String) throws {
            folder = "/run/culvert-etc-\(UUID().uuidString)"
            try PrivilegedTests.run(["cp", "-a", "/etc", folder])
            try PrivilegedTests.run(["mount", "--bind", folder, "/etc"])
            try resolvConf.write(toFile: "/etc/resolv.conf", atomically: false, encoding: .utf8)
        }

        deinit {
            _ = try? PrivilegedTests.run(["umount", "/etc"])
            try? FileManager.default.removeItem(atPath: folder)
        }
    }
#endif
