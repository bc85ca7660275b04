// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

@Suite("Pipes for programs")
struct DescriptorPipeTests {
    @Test("Written bytes are read, and the end of file follows when the writer is closed")
    func bytes() throws {
        let pipe = try DescriptorPipe()
        #expect(SystemCall.writeAll(pipe.writer.number, [1, 2, 3]))
        pipe.writer.close()
        #expect(SystemCall.readAll(pipe.reader.number, limit: 10) == [1, 2, 3])
    }

    @Test("Both ends are above the numbers that programs are given theirs under")
    func numbers() throws {
        let pipe = try DescriptorPipe()
        #expect(pipe.reader.number >= 20 && pipe.writer.number >= 20)
        #expect(pipe.reader.number != pipe.writer.number)
    }

    @Test("More than the limit is an error, and not cut off")
    func limit() throws {
        let pipe = try DescriptorPipe()
        #expect(SystemCall.writeAll(pipe.writer.number, [1, 2, 3]))
        pipe.writer.close()
        #expect(SystemCall.readAll(pipe.reader.number, limit: 2) == nil)
    }
}
