// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import PacketTunnel
import TunnelIO
import TunnelSystem

/// A program of the system: run without a shell, from the system's folders, with an environment of its own, for a
/// limited time. What is secret is never among its arguments.
struct SystemProgram: Hashable, Sendable {
    /// The program's file.
    let path: String

    /// Where programs are looked for; `PATH` is not asked, since it may be another user's.
    static let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"]

    /// The program of this name; nil where it is not installed.
    init?(_ name: String, folders: [String] = Self.folders) {
        let files = folders.map { "\($0)/\(name)" }
        guard let file = files.first(where: { file in unsafe access(file, X_OK) == 0 }) else { return nil }
        path = file
    }

    /// The program of this name.
    static func required(_ name: String) throws(LinuxNetworkError) -> SystemProgram {
        guard let program = SystemProgram(name) else { throw LinuxNetworkError(.programMissing(name: name)) }
        return program
    }

    typealias Outcome = ChildProcess.Outcome

    /// Runs it to its end.
    /// - Parameters:
    ///   - input: what it reads from standard input.
    ///   - seconds: how long it may take.
    ///   - outputLimit: how many bytes of what it writes are kept.
    /// - Throws: `.programNotStarted`, `.programTimedOut`.
    func run(
        _ arguments: [String], input: String = "", seconds: Int = 10, outputLimit: Int = 65_536
    ) throws(LinuxNetworkError) -> Outcome {
        let deadline = LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond
        let child: ChildProcess
        do throws(SystemError) {
            child = try start(arguments, input: Array(input.utf8), outputLimit)
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
        _ arguments: [String], input: [UInt8], _ outputLimit: Int
    ) throws(SystemError) -> ChildProcess {
        // All of the input is in the pipe before anybody reads it: nobody has to write while waiting.
        let pipe = try DescriptorPipe()
        try pipe.fill(input)
        let child = try ChildProcess(
            path, arguments: [path] + arguments,
            environment: ["PATH=" + Self.folders.joined(separator: ":"), "LC_ALL=C"], input: pipe.reader.number,
            outputLimit: outputLimit)
        pipe.reader.close()
        pipe.writer.close()
        return child
    }

    /// Runs it to its end, which must be a good one.
    /// - Throws: as ``run(_:input:seconds:)``; `.programFailed`.
    @discardableResult
    func check(_ arguments: [String], input: String = "", seconds: Int = 10) throws(LinuxNetworkError) -> String {
        let outcome = try run(arguments, input: input, seconds: seconds)
        guard outcome.status == 0 else {
            let lines = outcome.output.split(separator: "\n").suffix(3).joined(separator: " ")
            throw LinuxNetworkError(
                .programFailed(path: path, status: outcome.status, output: String(lines.prefix(300))))
        }
        return outcome.output
    }
}

extension DescriptorPipe {
    /// `F_SETPIPE_SZ` of linux/fcntl.h.
    private static let setSize: Int32 = 1031

    /// Puts all of it into the pipe.
    fileprivate func fill(_ bytes: [UInt8]) throws(SystemError) {
        if bytes.count > 65_536 { _ = fcntl(writer.number, Self.setSize, Int32(clamping: bytes.count)) }
        _ = fcntl(writer.number, F_SETFL, O_NONBLOCK)
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes[written...].withUnsafeBytes { unsafe SystemCall.write(writer.number, $0) }
            guard count > 0 else { throw SystemError("write", errno: count < 0 ? errno : EIO) }
            written += count
        }
    }
}
