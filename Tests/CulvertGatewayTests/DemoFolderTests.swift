// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import FoundationEssentials
    import Testing
    import TunnelSystem

    @testable import culvert_gateway

    @Suite("The folder of a demonstration")
    struct DemoFolderTests {
        @Test("The demo folder is new, has mode 0700, and is removed")
        func made() throws {
            let folder = try DemoFolder()
            let status = try #require(FileStatus(of: folder.path, followsLinks: false))
            #expect(status.kind == .folder && status.mode == 0o700)
            let other = try DemoFolder()
            other.remove()
            #expect(other.path != folder.path)
            folder.remove()
            #expect(FileStatus(of: folder.path, followsLinks: false) == nil)
        }

        @Test("Where none can be made the place is named, and what to do")
        func refused() {
            let error = #expect(throws: CommandFailure.self) { try DemoFolder(in: "/proc/none") }
            #expect(error?.reason.contains("/proc/none") == true && error?.fix.contains("TMPDIR") == true)
        }
    }
#endif
