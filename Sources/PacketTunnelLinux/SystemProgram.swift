// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelIO
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

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

    /// What came of a run.
    struct Outcome: Hashable, Sendable {
        /// The exit status; 128 and the signal's number after a signal.
        var status: Int32
        /// The first 64 KiB of what it wrote to standard output and error.
        var output: String
    }

    /// Runs it to its end.
    /// - Parameters:
    ///   - input: what it reads from standard input.
    ///   - seconds: how long it may take.
    /// - Throws: `.programNotStarted`, `.programTimedOut`.
    func run(_ arguments: [String], input: String = "", seconds: Int = 10) throws(LinuxNetworkError) -> Outcome {
        let deadline = LaneClock.now() + Int64(seconds) * 1_000_000_000
        // All of the input is in the pipe before anybody reads it: nobody has to write while waiting.
        let inputPipe = try Pipe(path)
        try inputPipe.fill(Array(input.utf8))
        let outputPipe = try Pipe(path)
        let child = try spawn(arguments, input: inputPipe.reader, output: outputPipe.writer)
        inputPipe.closeBoth()
        outputPipe.closeWriter()
        let run = Run(child: child, output: outputPipe, deadline: deadline)
        guard let outcome = run.finish() else {
            throw LinuxNetworkError(.programTimedOut(path: path, seconds: seconds))
        }
        return outcome
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

    private func spawn(
        _ arguments: [String], input: Int32, output: Int32
    ) throws(LinuxNetworkError) -> pid_t {
        let setup = SpawnSetup(.ownGroup)
        setup.give(input, as: 0)
        setup.give(output, as: 1)
        setup.give(output, as: 2)
        let (child, failure) = setup.start(
            path, arguments: [path] + arguments,
            environment: ["PATH=" + Self.folders.joined(separator: ":"), "LC_ALL=C"])
        guard failure == 0 else { throw LinuxNetworkError(.programNotStarted(path: path), errno: failure) }
        return child
    }
}

/// A pipe whose ends no program inherits.
private final class Pipe {
    private(set) var reader: Int32 = -1
    private(set) var writer: Int32 = -1
    private let program: String

    init(_ program: String) throws(LinuxNetworkError) {
        self.program = program
        var ends: (Int32, Int32) = (-1, -1)
        let made = unsafe withUnsafeMutableBytes(of: &ends) { raw in
            unsafe pipe(raw.bindMemory(to: Int32.self).baseAddress)
        }
        guard made == 0 else { throw LinuxNetworkError(.programNotStarted(path: program), errno: errno) }
        // Above the numbers of the standard streams, which duplicating to would otherwise do nothing.
        reader = fcntl(ends.0, F_DUPFD_CLOEXEC, 3)
        writer = fcntl(ends.1, F_DUPFD_CLOEXEC, 3)
        close(ends.0)
        close(ends.1)
        guard reader >= 0, writer >= 0 else {
            throw LinuxNetworkError(.programNotStarted(path: program), errno: errno)
        }
    }

    deinit { closeBoth() }

    func closeWriter() {
        if writer >= 0 { close(writer) }
        writer = -1
    }

    func closeBoth() {
        closeWriter()
        if reader >= 0 { close(reader) }
        reader = -1
    }

    /// `F_SETPIPE_SZ` of linux/fcntl.h.
    private static let setSize: Int32 = 1031

    /// Puts all of it into the pipe.
    func fill(_ bytes: [UInt8]) throws(LinuxNetworkError) {
        if bytes.count > 65_536 { _ = fcntl(writer, Self.setSize, Int32(clamping: bytes.count)) }
        _ = fcntl(writer, F_SETFL, O_NONBLOCK)
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes[written...].withUnsafeBytes { rest in
                SystemCall.retry { unsafe write(writer, rest.baseAddress, rest.count) }
            }
            guard count > 0 else {
                throw LinuxNetworkError(.programNotStarted(path: program), errno: count < 0 ? errno : EIO)
            }
            written += count
        }
    }
}

/// A program that runs.
private struct Run {
    let child: pid_t
    let output: Pipe
    let deadline: Int64

    /// How it ended; nil when it had to be killed.
    func finish() -> SystemProgram.Outcome? {
        _ = fcntl(output.reader, F_SETFL, O_NONBLOCK)
        var text: [UInt8] = []
        while LaneClock.now() < deadline {
            let isAtEnd = drain(into: &text)
            // A process that it leaves behind may hold the output open: its own end is what counts.
            if let status = reap(WNOHANG) {
                _ = drain(into: &text)
                return SystemProgram.Outcome(status: status, output: String(decoding: text, as: UTF8.self))
            }
            var entry = pollfd(fd: isAtEnd ? -1 : output.reader, events: Int16(POLLIN), revents: 0)
            unsafe poll(&entry, 1, isAtEnd ? 1 : 10)
        }
        kill(-child, SIGKILL)
        kill(child, SIGKILL)
        _ = reap(0)
        return nil
    }

    /// Takes what there is; whether nothing will follow.
    private func drain(into text: inout [UInt8]) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 8192)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { buffer in
                SystemCall.retry { unsafe read(output.reader, buffer.baseAddress, buffer.count) }
            }
            guard count > 0 else { return count == 0 }
            text += chunk.prefix(min(count, max(0, 65_536 - text.count)))
        }
    }

    private func reap(_ options: Int32) -> Int32? {
        var raw: Int32 = 0
        let ended = SystemCall.retry { unsafe waitpid(child, &raw, options) }
        guard ended == child else { return nil }
        let signal = raw & 0x7f
        return signal == 0 ? (raw >> 8) & 0xff : 128 + signal
    }
}
