// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// A folder for one test. It has mode 0700 and is removed after the test.
enum TestFolder {
    /// A folder in memory, if the system has one. A killed process leaves the same files there as on a disk. A disk
    /// would slow down other tests, because it waits at each of thousands of commits.
    private static var parent: String {
        let memory = "/dev/shm"
        return FileManager.default.isWritableFile(atPath: memory)
            ? memory : FileManager.default.temporaryDirectory.path
    }

    static func use<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        let path = "\(parent)/culvert-\(UInt64.random(in: 0...UInt64.max))"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try await body(path)
    }

    static func setMode(_ path: String, _ mode: Int) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }
}
