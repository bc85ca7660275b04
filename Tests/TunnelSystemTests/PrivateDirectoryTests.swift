// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Testing
import TunnelSystem

@Suite("Private directories")
struct PrivateDirectoryTests {
    private struct Failure: StorageFailure {
        let problem: StorageProblem

        init(_ problem: StorageProblem) { self.problem = problem }
    }

    /// A folder that is removed with the value that holds it.
    private final class Folder {
        let path: String

        init() throws {
            path = "/tmp/culvert-private-\(UInt64.random(in: 0...UInt64.max))"
            _ = try PrivateDirectory<Failure>(path: path, access: .ownerOnly)
        }

        deinit {
            for name in names { _ = unsafe unlink("\(path)/\(name)") }
            _ = unsafe rmdir(path)
        }

        func open() throws -> PrivateDirectory<Failure> {
            try PrivateDirectory<Failure>(path: path, access: .ownerOnly)
        }

        var names: [String] { (FolderContents.names(path) ?? []).sorted() }

        /// Makes an empty file.
        /// - Returns: its open descriptor.
        func make(_ name: String) throws -> Int32 {
            let opened = SystemCall.open("\(path)/\(name)", O_WRONLY | O_CREAT | O_EXCL)
            try #require(opened >= 0)
            return opened
        }
    }

    private static let abandoned = ".key.0123456789abcdef"

    @Test("The next write or lock removes the temporary files of killed writers", arguments: [true, false])
    func abandonedFiles(isWrite: Bool) throws {
        let folder = try Folder()
        for name in [Self.abandoned, ".settings.json.123456789abcd"] { SystemCall.close(try folder.make(name)) }
        let directory = try folder.open()
        if isWrite { try directory.write([1], to: "other") } else { try directory.lock() }
        #expect(folder.names == (isWrite ? ["other"] : []))
    }

    @Test("The temporary file of a running writer and foreign hidden files stay")
    func others() throws {
        let folder = try Folder()
        let living = try folder.make(Self.abandoned)
        defer { SystemCall.close(living) }
        try #require(flock(living, LOCK_EX | LOCK_NB) == 0)
        let foreign = [".0123456789abcdef", ".cafe", ".key.0123456789ABCDEF", ".key.swp", "key.0123456789abcdef"]
        for name in foreign { SystemCall.close(try folder.make(name)) }
        let directory = try folder.open()
        try directory.lock()
        try directory.write([1, 2, 3], to: "key")
        #expect(try directory.read("key") == [1, 2, 3])
        #expect(folder.names == (foreign + [Self.abandoned, "key"]).sorted())
    }
}
