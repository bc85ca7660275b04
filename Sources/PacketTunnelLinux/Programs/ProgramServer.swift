// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// Starts programs for another process that may not start any: programs of the system in the forms that a tunnel needs
/// (``SystemProgramCall``), and the commands of its scope. It reads no data from a network.
package struct ProgramServer: Sendable {
    private let scope: ProgramScope

    package init(_ scope: ProgramScope) { self.scope = scope }

    /// Serves these sockets, each on its own thread, until the process at the other ends has ended. Then it ends the
    /// running programs.
    package func serve(_ sockets: [Int32]) {
        var threads: [LoopThread] = []
        for socket in sockets {
            do throws(TunnelIOError) {
                threads.append(try LoopThread(name: "culvert-run") { serve(socket) })
            } catch {
                SystemCall.close(socket)
            }
        }
        for thread in threads { thread.join() }
    }

    private func serve(_ socket: Int32) {
        defer { SystemCall.close(socket) }
        while let (numbered, input) = ProgramFrame.receive(NumberedRequest.self, from: socket) {
            var output: [UInt8] = []
            let reply: ProgramReply
            let limit = numbered.deadline
            switch numbered.request {
            case .cancel: continue
            // This process was stopped, and the client no longer waits.
            case _ where limit <= LaneClock.now(): reply = .timedOut
            case .file: reply = readFile(&output)
            case .system(let call): reply = run(call, input, until: limit, socket, &output)
            case .command(let index, let seconds, let outputLimit):
                guard scope.commands.indices.contains(index), (1...3600).contains(seconds),
                    (0...ProgramFrame.mostBytes).contains(outputLimit)
                else {
                    reply = .refused("command")
                    break
                }
                let command = scope.commands[index]
                reply = run(
                    command.program, command.arguments, command.environment, input,
                    until: Self.deadline(seconds, limit), outputLimit: outputLimit, socket, &output)
            }
            guard ProgramFrame.send(NumberedReply(number: numbered.number, reply: reply), output, to: socket) else {
                return
            }
        }
    }

    private func run(
        _ call: SystemProgramCall, _ input: [UInt8], until limit: Int64, _ socket: Int32, _ output: inout [UInt8]
    ) -> ProgramReply {
        if let problem = call.problem(for: scope.tunnel, input: input) {
            return .refused("\(call.program): \(problem)")
        }
        guard let program = SystemProgram(call.program) else { return .notStarted(errno: ENOENT) }
        return run(
            program.path, [program.path] + call.arguments, SystemProgram.environment, input,
            until: Self.deadline(call.seconds, limit), outputLimit: call.outputLimit, socket, &output)
    }

    /// Returns the deadline of a program, which is not later than that of its request.
    private static func deadline(_ seconds: Int, _ limit: Int64) -> Int64 {
        min(LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond, limit)
    }

    private func run(
        _ program: String, _ arguments: [String], _ environment: [String], _ input: [UInt8], until deadline: Int64,
        outputLimit: Int, _ socket: Int32, _ output: inout [UInt8]
    ) -> ProgramReply {
        do throws(SystemError) {
            let file = try SystemProgram.memoryFile(input)
            let child = try ChildProcess(
                program, arguments: arguments, environment: environment, input: file.number, outputLimit: outputLimit)
            // Any byte from the other side, or the end of the socket, means that it no longer waits.
            switch child.wait(until: deadline, interruption: socket) {
            case .ended(let outcome):
                output = Array(outcome.output.utf8)
                return .ended(status: outcome.status)
            case .interrupted:
                output = Array(child.stop().output.utf8)
                return .interrupted
            case .timedOut:
                child.destroy()
                return .timedOut
            }
        } catch {
            return .notStarted(errno: error.errno)
        }
    }

    private func readFile(_ bytes: inout [UInt8]) -> ProgramReply {
        guard let path = scope.file else { return .refused("file") }
        let number = SystemCall.open(path, O_RDONLY | O_NONBLOCK)
        var file = ProgramFile(errno: errno, owner: 0, mode: 0, isRegular: false)
        guard number >= 0 else { return .file(file) }
        let descriptor = OwnedDescriptor(number)
        guard let status = FileStatus(of: number), let read = SystemCall.readAll(number, limit: 4 << 20) else {
            file.errno = errno
            return .file(file)
        }
        withExtendedLifetime(descriptor) {}
        bytes = read
        return .file(
            ProgramFile(
                errno: 0, owner: status.owner, mode: UInt32(status.mode) & 0o7777, isRegular: status.kind == .file))
    }
}
