// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
package import TunnelSystem

/// A child process in a separate process group, so that Ctrl-C on the terminal reaches only this process.
///
/// A process descriptor reports the end of the process separately from the end of its output, because a grandchild may
/// keep the output open. Only one thread may use it.
package final class ChildProcess {
    /// The process.
    package let id: Int32
    private let end: OwnedDescriptor
    /// The pipe of the program's standard output and error.
    private let output: SharedDescriptor
    private let outputLimit: Int
    private var bytes: [UInt8] = []
    private var isAtEnd = false
    private var status: Int32?

    /// The result of a program.
    package struct Outcome: Hashable, Sendable {
        /// The exit status, or 128 plus the signal number if a signal ended the program.
        package var status: Int32
        /// The standard output and error of the program, up to the limit.
        package var output: String

        package init(status: Int32, output: String) {
            self.status = status
            self.output = output
        }
    }

    /// The result of a wait. A program that has not ended keeps running.
    package enum Ending {
        case ended(Outcome)
        case interrupted
        case timedOut
    }

    /// Starts a program.
    /// - Parameters:
    ///   - program: The program's file. If `isSearched` is set, a name without a slash is searched in `PATH`.
    ///   - arguments: The arguments, with the program's name first.
    ///   - environment: The whole environment.
    ///   - input: Standard input; `nil` for none.
    ///   - descriptors: Further descriptors: their numbers in the program and in this process.
    ///   - outputLimit: The number of bytes of output to keep; the rest is read and discarded.
    package init(
        _ program: String, isSearched: Bool = false, arguments: [String], environment: [String],
        input: Int32? = nil, descriptors: [Int32: Int32] = [:], outputLimit: Int = 65_536
    ) throws(SystemError) {
        self.outputLimit = outputLimit
        let pipe = try DescriptorPipe()
        let setup = SpawnSetup(.ownGroup)
        if let input { setup.pass(input, as: 0) } else { setup.openNull(0, forWriting: false) }
        for number in [1, 2] as [Int32] { setup.pass(pipe.writer.number, as: number) }
        for (number, descriptor) in descriptors { setup.pass(descriptor, as: number) }
        id = try setup.start(program, isSearched: isSearched, arguments: arguments, environment: environment)
        pipe.writer.close()
        output = pipe.reader
        _ = fcntl(output.number, F_SETFL, O_NONBLOCK)
        do throws(SystemError) {
            end = try Self.descriptor(of: id)
        } catch {
            kill(-id, SIGKILL)
            _ = Self.reap(id)
            throw error
        }
    }

    deinit {
        if status == nil { destroy() }
    }

    // MARK: - Waiting

    /// Waits until the process has ended.
    /// - Parameter interruption: A descriptor that ends the wait when it becomes readable.
    package func wait(until deadline: Int64, interruption: Int32? = nil) -> Ending {
        while status == nil {
            guard let ready = ready(until: deadline, interruption: interruption) else { return .timedOut }
            if ready.output { collect() }
            if ready.end { return .ended(finish()) }
            if ready.interruption { return .interrupted }
        }
        return .ended(finish())
    }

    /// Waits until the program has written `words`.
    /// - Returns: `nil` if it has; otherwise the result of the wait.
    package func wait(forOutput words: String, until deadline: Int64, interruption: Int32? = nil) -> Ending? {
        while !text.contains(words) {
            guard status == nil else { return .ended(finish()) }
            guard let ready = ready(until: deadline, interruption: interruption) else { return .timedOut }
            if ready.output { collect() }
            if ready.end { _ = finish() }
            if ready.interruption { return .interrupted }
        }
        return nil
    }

    /// Asks the process and its group to end. Kills the rest of the group once the process has ended and its output is
    /// closed, or after one second.
    @discardableResult
    package func stop() -> Outcome {
        guard status == nil else { return finish() }
        kill(-id, SIGTERM)
        let deadline = LaneClock.now() + LaneClock.nanosecondsPerSecond
        var hasEnded = false
        while !hasEnded || !isAtEnd, let ready = ready(until: deadline, watchesEnd: !hasEnded) {
            if ready.output { collect() }
            if ready.end { hasEnded = true }
        }
        return destroy()
    }

    /// Kills the process and its group.
    @discardableResult
    package func destroy() -> Outcome {
        // Until the process is reaped, its number is that of the group.
        if status == nil { kill(-id, SIGKILL) }
        return finish()
    }

    /// Waits until a process has ended, even if another process started it.
    /// - Returns: `false` if the deadline passed or the wait was interrupted before.
    package static func wait(
        forEndOf process: Int32, until deadline: Int64, interruption: Int32? = nil
    ) -> Bool {
        do throws(SystemError) {
            let descriptor = try descriptor(of: process)
            return ready([descriptor.number, interruption ?? -1], until: deadline)?[0] ?? false
        } catch {
            return error.errno == ESRCH
        }
    }

    static func descriptor(of process: Int32) throws(SystemError) -> OwnedDescriptor {
        OwnedDescriptor(try SystemCall.check("pidfd_open") { ctunnel_process_descriptor(process) })
    }

    private func ready(
        until deadline: Int64, interruption: Int32? = nil, watchesEnd: Bool = true
    ) -> (output: Bool, end: Bool, interruption: Bool)? {
        // A negative descriptor is skipped.
        let descriptors = [isAtEnd ? -1 : output.number, watchesEnd ? end.number : -1, interruption ?? -1]
        return Self.ready(descriptors, until: deadline).map { ($0[0], $0[1], $0[2]) }
    }

    /// Returns which descriptors are readable or closed at the other end, or `nil` if none is at the deadline.
    /// - Parameter writing: A descriptor to write to; the last result is whether it can be written.
    package static func ready(_ descriptors: [Int32], writing: Int32? = nil, until deadline: Int64) -> [Bool]? {
        var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        if let writing { entries.append(pollfd(fd: writing, events: Int16(POLLOUT), revents: 0)) }
        while true {
            let rest = deadline - LaneClock.now()
            guard rest > 0 else { return nil }
            let count = unsafe poll(&entries, nfds_t(entries.count), Int32(clamping: rest / 1_000_000 + 1))
            if count > 0 { return entries.map { $0.revents != 0 } }
        }
    }

    // MARK: - Output and status

    /// The output of the program so far.
    package var outputSoFar: String {
        collect()
        return text
    }

    /// Whether the process has not ended.
    package var isRunning: Bool {
        var entry = pollfd(fd: end.number, events: Int16(POLLIN), revents: 0)
        return unsafe status == nil && poll(&entry, 1, 0) == 0
    }

    private var text: String { String(decoding: bytes, as: UTF8.self) }

    /// The limit of reads per call. It is enough to empty a full pipe twice, and keeps a program that writes without
    /// pause from delaying the check of the deadline.
    private static let readsPerTurn = 32

    /// Reads the output that is available.
    private func collect() {
        var chunk = [UInt8](repeating: 0, count: 4096)
        for _ in 0..<Self.readsPerTurn where !isAtEnd {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(output.number, into: $0) }
            if count == 0 { isAtEnd = true }
            guard count > 0 else { return }
            bytes += chunk.prefix(min(count, max(0, outputLimit - bytes.count)))
        }
    }

    /// Reaps the program, which has ended or is about to end, and reads its last output.
    private func finish() -> Outcome {
        if status == nil {
            status = Self.reap(id)
            collect()
        }
        return Outcome(status: status ?? 0, output: text)
    }

    static func reap(_ process: Int32) -> Int32 {
        var raw: Int32 = 0
        _ = SystemCall.retry { unsafe waitpid(process, &raw, 0) }
        // The low seven bits name the signal that ended the program, if one did.
        let signal = raw & 0x7f
        return signal == 0 ? (raw >> 8) & 0xff : 128 + signal
    }
}

extension ChildProcess.Outcome {
    /// The last line that the program wrote.
    package var lastLine: String { output.split(separator: "\n").last.map(String.init) ?? "without a message" }
}
