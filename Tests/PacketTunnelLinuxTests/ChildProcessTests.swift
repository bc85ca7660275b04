// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux
import Testing
import TunnelIO
import TunnelSystem

@Suite("Child processes", .timeLimit(.minutes(1)))
struct ChildProcessTests {
    private static func start(
        _ script: String, input: Int32? = nil, descriptors: [Int32: Int32] = [:], outputLimit: Int = 65_536
    ) throws -> ChildProcess {
        try ChildProcess(
            "/bin/sh", arguments: ["sh", "-c", script], environment: ["PATH=/usr/bin:/bin", "GREETING=hello"],
            input: input, descriptors: descriptors, outputLimit: outputLimit)
    }

    /// A deadline far in the future.
    private static var patience: Int64 { LaneClock.now() + 30 * LaneClock.nanosecondsPerSecond }
    private static var soon: Int64 { LaneClock.now() + LaneClock.nanosecondsPerSecond / 5 }

    @Test("A program's status and whole output are returned")
    func outcome() throws {
        guard
            case .ended(let outcome) = try Self.start("echo $GREETING; echo err >&2; exit 3").wait(until: Self.patience)
        else {
            Issue.record("it did not end")
            return
        }
        #expect(outcome.status == 3)
        #expect(outcome.output == "hello\nerr\n")
        #expect(outcome.lastLine == "err")
    }

    @Test("A program that a signal ends has 128 and the signal's number as its status")
    func signalled() throws {
        guard case .ended(let outcome) = try Self.start("kill -TERM $$").wait(until: Self.patience) else {
            Issue.record("it did not end")
            return
        }
        #expect(outcome.status == 128 + 15)
    }

    @Test("Output beyond the limit is read and forgotten, so that the program is not held up")
    func limit() throws {
        let child = try Self.start("head -c 1000000 /dev/zero; exit 7", outputLimit: 10)
        guard case .ended(let outcome) = child.wait(until: Self.patience) else {
            Issue.record("it did not end")
            return
        }
        #expect(outcome.status == 7)
        #expect(outcome.output.utf8.count == 10)
    }

    @Test("A wait ends with the deadline, and the program runs on until it is stopped")
    func deadline() throws {
        let child = try Self.start("echo ready; exec sleep 1000")
        #expect(child.wait(forOutput: "ready", until: Self.patience) == nil)
        guard case .timedOut = child.wait(until: Self.soon) else {
            Issue.record("it ended")
            return
        }
        #expect(child.isRunning)
        #expect(child.outputSoFar == "ready\n")
        #expect(child.stop().status == 128 + 15)
        #expect(!child.isRunning)
    }

    @Test("A descriptor that can be read interrupts a wait")
    func interruption() throws {
        let pipe = try DescriptorPipe()
        SystemCall.writeAll(pipe.writer.number, [1])
        let child = try Self.start("exec sleep 1000")
        guard case .interrupted = child.wait(until: Self.patience, interruption: pipe.reader.number) else {
            Issue.record("it was not interrupted")
            return
        }
        #expect(child.destroy().status == 128 + 9)
    }

    @Test("A wait for words ends when the program does without writing them")
    func words() throws {
        guard case .ended(let outcome) = try Self.start("echo other").wait(forOutput: "never", until: Self.patience)
        else {
            Issue.record("it did not end")
            return
        }
        #expect(outcome.output == "other\n")
    }

    @Test("The end of a program is detected while its child holds the output open")
    func background() throws {
        let child = try Self.start("sleep 1000 & echo $!")
        guard case .ended(let outcome) = child.wait(until: Self.patience) else {
            Issue.record("it did not end")
            return
        }
        let left = try #require(Int32(outcome.lastLine))
        _ = try Self.start("kill \(left)").wait(until: Self.patience)
        #expect(ChildProcess.wait(forEndOf: left, until: Self.patience))
    }

    @Test("A program gets its input, and further descriptors under the requested numbers")
    func descriptors() throws {
        let (input, report) = (try DescriptorPipe(), try DescriptorPipe())
        SystemCall.writeAll(input.writer.number, Array("words".utf8))
        input.writer.close()
        let child = try Self.start(
            "cat; echo more >&9", input: input.reader.number, descriptors: [9: report.writer.number])
        guard case .ended(let outcome) = child.wait(until: Self.patience) else {
            Issue.record("it did not end")
            return
        }
        report.writer.close()
        #expect(outcome.output == "words")
        #expect(SystemCall.readAll(report.reader.number, limit: 100) == Array("more\n".utf8))
    }

    @Test("A program that is not there is an error that names it")
    func missing() throws {
        let error = #expect(throws: SystemError.self) {
            try ChildProcess("/nonexistent/program", arguments: ["program"], environment: [])
        }
        #expect(error?.description.contains("/nonexistent/program") == true)
    }
}
