// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Testing
    import TunnelSystem

    @Suite("Programs that are started")
    struct SpawnSetupTests {
        @Test("A program has only the descriptors that it is given, although others are not closed on exec")
        func descriptors() throws {
            let pipe = try DescriptorPipe()
            // As SwiftNIO's sockets: below and above the given ones.
            let inherited = try (0..<12).map { _ in try SystemCall.check("dup") { dup(pipe.reader.number) } }
            defer { for descriptor in inherited { SystemCall.close(descriptor) } }
            let setup = SpawnSetup(.ownGroup)
            setup.openNull(0, forWriting: false)
            setup.openNull(2, forWriting: true)
            for number in [1, 9] as [Int32] { setup.pass(pipe.writer.number, as: number) }
            let child = try setup.start(
                "/bin/sh",
                arguments: ["sh", "-c", "for file in /proc/$$/fd/*; do [ ! -e $file ] || echo ${file##*/}; done"],
                environment: [])
            pipe.writer.close()
            let text = String(
                decoding: try #require(SystemCall.readAll(pipe.reader.number, limit: 4096)), as: UTF8.self)
            var status: Int32 = 0
            #expect(SystemCall.retry { unsafe waitpid(child, &status, 0) } == child && status == 0)
            #expect(text.split(separator: "\n") == ["0", "1", "2", "9"])
        }
    }
#endif
