// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// A folder for one test, of mode 0700, which is gone after it.
enum TestFolder {
    /// In memory where the system has such a place: what a killed process leaves there is the same, and a disk that is waited for
    /// at each of thousands of commits keeps other tests from theirs.
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
