// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The programs that measuring whole tunnels takes.
enum Tools {
    /// - Throws: An error with the names of all missing tools.
    static func require(_ names: [String]) throws {
        let missing = names.filter { find($0) == nil }
        guard missing.isEmpty else {
            throw BenchmarkError(
                "not found: \(missing.joined(separator: ", ")); 'scripts/setup bench' installs what is missing")
        }
        guard getuid() == 0 else { throw BenchmarkError("namespaces and TUN devices need root") }
        guard FileManager.default.fileExists(atPath: "/dev/net/tun") else {
            throw BenchmarkError("/dev/net/tun is missing; 'scripts/setup bench' makes it")
        }
    }

    /// The file of a program: itself where it is a path, else what PATH gives.
    static func find(_ name: String) -> String? {
        if name.contains("/") { return FileManager.default.isExecutableFile(atPath: name) ? name : nil }
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin"
        return path.split(separator: ":").map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
