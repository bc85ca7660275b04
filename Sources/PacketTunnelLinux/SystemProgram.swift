// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import PacketTunnel
package import Synchronization
import TunnelIO
package import TunnelSystem

/// A program of the system. It runs without a shell, from the system's folders, with a fixed environment and a time
/// limit. Its arguments never contain secrets.
package struct SystemProgram: Hashable, Sendable {
    /// The program's file.
    package let path: String
    /// The purpose of its runs, if another process starts the program.
    private let purpose: ProgramClient.Purpose

    /// The folders to search for programs. `PATH` is not used, because another user may have set it.
    static let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"]

    /// Finds the program of this name. Returns `nil` if it is not installed.
    init?(
        _ name: String, folders: [String] = Self.folders, purpose: ProgramClient.Purpose = .system
    ) {
        self.purpose = purpose
        let files = folders.map { "\($0)/\(name)" }
        guard let file = files.first(where: { file in unsafe access(file, X_OK) == 0 }) else { return nil }
        path = file
    }

    /// Finds the program of this name, or throws.
    package static func required(_ name: String) throws(LinuxNetworkError) -> SystemProgram {
        guard let program = SystemProgram(name) else { throw LinuxNetworkError(.programMissing(name: name)) }
        return program
    }

    package typealias Outcome = ChildProcess.Outcome

    /// Runs the program to its end.
    /// - Parameters:
    ///   - input: Its standard input.
    ///   - seconds: The time limit.
    ///   - outputLimit: The number of bytes of output to keep.
    ///   - meanwhile: Called on the calling thread every 5 milliseconds until the program has ended.
    /// - Throws: `.programNotStarted`, `.programTimedOut`.
    package func run(
        _ arguments: [String], input: String = "", seconds: Int = 10, outputLimit: Int = 65_536,
        meanwhile: (() -> Void)? = nil
    ) throws(LinuxNetworkError) -> Outcome {
        guard let meanwhile else {
            return try run(arguments, input: input, seconds: seconds, outputLimit: outputLimit)
        }
        let program = self
        return try BackgroundWork(name: "culvert-wait") { () throws(LinuxNetworkError) in
            try program.run(arguments, input: input, seconds: seconds, outputLimit: outputLimit)
        }.wait(meanwhile: meanwhile).get()
    }

    private func run(
        _ arguments: [String], input: String, seconds: Int, outputLimit: Int
    ) throws(LinuxNetworkError) -> Outcome {
        if let runner = Self.runner.withLock({ $0 }), let name = path.split(separator: "/").last {
            return try runner.run(
                system: String(name), arguments, input: Array(input.utf8), seconds: seconds, outputLimit: outputLimit,
                by: purpose)
        }
        let deadline = LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond
        let child: ChildProcess
        do throws(SystemError) {
            child = try start(arguments, input: Array(input.utf8), outputLimit: outputLimit)
        } catch {
            throw LinuxNetworkError(.programNotStarted(path: path), errno: error.errno)
        }
        guard case .ended(let outcome) = child.wait(until: deadline) else {
            child.destroy()
            throw LinuxNetworkError(.programTimedOut(path: path, seconds: seconds))
        }
        return outcome
    }

    private func start(
        _ arguments: [String], input: [UInt8], outputLimit: Int
    ) throws(SystemError) -> ChildProcess {
        // A memory file holds input of any size, and needs no writer during the wait.
        let file = try Self.memoryFile(input)
        return try ChildProcess(
            path, arguments: [path] + arguments, environment: Self.environment, input: file.number,
            outputLimit: outputLimit)
    }

    /// The environment of programs.
    static var environment: [String] { ["PATH=" + folders.joined(separator: ":"), "LC_ALL=C"] }

    /// The client that starts programs for this process, or `nil` if it starts them itself.
    package static let runner = Mutex<ProgramClient?>(nil)

    /// Creates a file without a name that contains these bytes, to be read from its start.
    package static func memoryFile(_ bytes: [UInt8]) throws(SystemError) -> OwnedDescriptor {
        let file = OwnedDescriptor(try SystemCall.check("memfd_create") { ctunnel_memory_file() })
        guard SystemCall.writeAll(file.number, bytes), lseek(file.number, 0, SEEK_SET) == 0 else {
            throw SystemError("write", errno: errno)
        }
        return file
    }

    /// Runs the program to its end, and requires status 0.
    /// - Throws: Like ``run(_:input:seconds:)``; `.programFailed`.
    @discardableResult
    package func check(
        _ arguments: [String], input: String = "", seconds: Int = 10, outputLimit: Int = 65_536,
        meanwhile: (() -> Void)? = nil
    ) throws(LinuxNetworkError) -> String {
        let outcome = try run(
            arguments, input: input, seconds: seconds, outputLimit: outputLimit, meanwhile: meanwhile)
        guard outcome.status == 0 else {
            let lines = outcome.output.split(separator: "\n").suffix(3).joined(separator: " ")
            throw LinuxNetworkError(
                .programFailed(path: path, status: outcome.status, output: String(lines.prefix(300))))
        }
        return outcome.output
    }
}
