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

        func open(_ access: StorageAccess = .ownerOnly) throws -> PrivateDirectory<Failure> {
            try PrivateDirectory<Failure>(path: path, access: access)
        }

        var names: [String] { (FolderContents.names(path) ?? []).sorted() }

        /// Makes an empty file that was changed that many seconds ago.
        /// - Returns: its open descriptor.
        func make(_ name: String, age: Int = 120) throws -> Int32 {
            let opened = SystemCall.open("\(path)/\(name)", O_WRONLY | O_CREAT | O_EXCL)
            try #require(opened >= 0)
            let changed = timespec(tv_sec: time(nil) - age, tv_nsec: 0)
            try #require(unsafe futimens(opened, [changed, changed]) == 0)
            return opened
        }
    }

    private static let abandoned = ".key.0123456789abcdef"

    enum Step: CaseIterable {
        case write, lock, remove
    }

    @Test("The next write, lock or removal removes the temporary files of killed writers", arguments: Step.allCases)
    func abandonedFiles(step: Step) throws {
        let folder = try Folder()
        SystemCall.close(try folder.make(Self.abandoned))
        let directory = try folder.open()
        switch step {
        case .write: try directory.write([1], to: "other")
        case .lock: try directory.lock()
        case .remove: try directory.remove("other")
        }
        #expect(folder.names == (step == .write ? ["other"] : []))
    }

    @Test("A temporary file of less than a minute, or from the future, stays", arguments: [0, 30, -3600])
    func young(age: Int) throws {
        let folder = try Folder()
        SystemCall.close(try folder.make(Self.abandoned, age: age))
        try folder.open().lock()
        #expect(folder.names == [Self.abandoned])
    }

    @Test("In an app's own folder only the temporary files of the store's own names are removed")
    func sharedFolder() throws {
        let folder = try Folder()
        for name in [Self.abandoned, ".trust-app.version.0123456789abcdef"] { SystemCall.close(try folder.make(name)) }
        try folder.open(.asItIs(prefix: "trust-")).lock()
        #expect(folder.names == [Self.abandoned])
    }

    @Test("A written file has the mode of its folder's access")
    func modes() throws {
        let folder = try Folder()
        try folder.open(.readableByAll).write([1], to: "open")
        try folder.open(.ownerOnly).write([1], to: "closed")
        #expect(FileStatus(of: "\(folder.path)/open")?.mode == 0o644)
        #expect(FileStatus(of: "\(folder.path)/closed")?.mode == 0o600)
        #expect(folder.names == ["closed", "open"])
    }

    @Test("The temporary file of a running writer and foreign hidden files stay")
    func others() throws {
        let folder = try Folder()
        let living = try folder.make(Self.abandoned)
        defer { SystemCall.close(living) }
        try #require(flock(living, LOCK_EX | LOCK_NB) == 0)
        let foreign = [
            ".0123456789abcdef", ".cafe", ".key.0123456789012345", ".key.123456789abcd", ".settings.json.1732621625000",
            ".key.0123456789ABCDEF", ".key.swp", "key.0123456789abcdef",
        ]
        for name in foreign { SystemCall.close(try folder.make(name)) }
        let directory = try folder.open()
        try directory.lock()
        try directory.write([1, 2, 3], to: "key")
        #expect(try directory.read("key") == [1, 2, 3])
        #expect(folder.names == (foreign + [Self.abandoned, "key"]).sorted())
    }
}
