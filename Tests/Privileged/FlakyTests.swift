// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// The folder in which a test leaves a file the first time.
    private let folder = ProcessInfo.processInfo.environment["CULVERT_FLAKY"]

    /// Tests that fail the first time, for the part of `scripts/test` that runs a failed test again. `dev/environments flaky`
    /// runs them; elsewhere they are not even listed.
    @Suite("Tests that fail once", .enabled(if: folder != nil, "runs in make soak"), .timeLimit(.minutes(1)))
    struct FlakyTests {
        @Test("The first test fails once")
        func first() throws { try failOnce() }

        @Test("The second test fails once")
        func second() throws { try failOnce() }

        @Test("The third test fails once")
        func third() throws { try failOnce() }

        @Test("A test that never fails runs once")
        func sound() throws {
            #expect(FileManager.default.createFile(atPath: try #require(folder) + "/sound", contents: nil))
        }

        private func failOnce(name: String = #function) throws {
            let file = try #require(folder) + "/\(name)"
            let wasThere = FileManager.default.fileExists(atPath: file)
            #expect(FileManager.default.createFile(atPath: file, contents: nil))
            #expect(wasThere, "this is the first run")
        }
    }
#endif
