// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Testing

    @Suite("Commands in tests")
    struct SpawnedProcessTests {
        @Test("A command's output and status come back")
        func result() throws {
            #expect(try run(["sh", "-c", "echo out; echo err >&2"]).output == "out\nerr\n")
            let failed = try runAllowingFailure(["sh", "-c", "echo why; exit 3"])
            #expect(failed.status == 3)
            let failure = #expect(throws: CommandFailure.self) { try run(["sh", "-c", "echo why; exit 3"]) }
            #expect(failure?.description.contains("status 3 and wrote:\nwhy") == true)
            #expect(try runAllowingFailure(["sh", "-c", "kill -TERM $$"]).status == 128 + 15)
            #expect(throws: CommandFailure.self) { try run(["/nonexistent/command"]) }
        }

        @Test("Output longer than a pipe holds comes back whole")
        func longOutput() throws {
            #expect(try run(["head", "-c", "1000000", "/dev/zero"]).output.utf8.count == 1_000_000)
        }

        @Test("A command that exceeds its deadline is killed, and its output is reported")
        func deadline() throws {
            let failure = #expect(throws: CommandFailure.self) {
                try run(["sh", "-c", "echo begun; exec sleep 1000"], deadline: .milliseconds(300))
            }
            #expect(failure?.description.contains("took longer") == true)
            #expect(failure?.description.contains("begun") == true)
        }

        @Test("A command ends with its process, even if a background child holds its output open")
        func background() throws {
            let result = try run(["sh", "-c", "sleep 30 & echo $!"])
            let child = try #require(Int32(result.output.split(separator: "\n")[0]))
            try run(["kill", "\(child)"])
        }

        @Test("A concurrent command is waited for by its output, and killed with its object")
        func beside() throws {
            let process = try SpawnedProcess(["sh", "-c", "echo ready; exec sleep 1000"])
            try process.waitForOutput(containing: "ready")
            #expect(process.isRunning)
            let failure = #expect(throws: CommandFailure.self) {
                try process.waitForOutput(containing: "never", deadline: .milliseconds(100))
            }
            #expect(failure?.description.contains("did not write 'never'") == true)
            process.signal(15)
            #expect(try process.wait().status == 128 + 15)
            #expect(!process.isRunning)
            let short = try SpawnedProcess(["true"])
            #expect(throws: CommandFailure.self) { try short.waitForOutput(containing: "never") }
        }
    }
#endif
