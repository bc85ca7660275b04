// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnel
    import Synchronization
    import TunnelSystem

    /// A process of its own process group, whose output is collected; killed with its group when this object goes.
    ///
    /// For one test at a time: not to be waited for on two threads at once.
    final class SpawnedProcess: @unchecked Sendable {
        let arguments: [String]
        let processID: pid_t
        private let output: Descriptor
        private let ended: Descriptor
        private let collected = Mutex<[UInt8]>([])
        private var status: Int32?

        /// A descriptor that is closed when this object goes.
        private final class Descriptor: Sendable {
            let number: Int32
            init(_ number: Int32) { self.number = number }
            deinit { close(number) }
        }

        /// Starts `arguments[0]`, looked up in PATH, with nothing to read.
        /// - Parameter descriptors: what else the process is given: its numbers there, and those here.
        /// - Throws: `CommandFailure`.
        init(_ arguments: [String], descriptors: [Int32: Int32] = [:]) throws {
            self.arguments = arguments
            let (reader, writer) = try Self.makePipe()
            let (endReader, endWriter) = try Self.makeSocketPair()
            output = reader
            ended = endReader
            processID = try withExtendedLifetime(writer) { try Self.spawn(arguments, writer.number, descriptors) }
            _ = fcntl(reader.number, F_SETFL, O_NONBLOCK)
            // The end is noticed apart from the output: a daemon that it starts may hold that open for good.
            let processID = processID
            Thread.detachNewThread {
                var information = unsafe siginfo_t()
                // Left as a zombie, so that the number is not given to another process before it is reaped below.
                while unsafe waitid(P_PID, id_t(processID), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
                // Not a pipe, whose writer is killed when nobody reads any more.
                _ = withExtendedLifetime(endWriter) {
                    unsafe send(endWriter.number, "x", 1, Int32(MSG_NOSIGNAL))
                }
            }
        }

        deinit {
            kill()
        }

        private static func makePipe() throws -> (reader: Descriptor, writer: Descriptor) {
            var ends: [Int32] = [-1, -1]
            guard unsafe pipe(&ends) == 0 else { throw CommandFailure(description: "no pipe: errno \(errno)") }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            return (Descriptor(ends[0]), Descriptor(ends[1]))
        }

        private static func makeSocketPair() throws -> (Descriptor, Descriptor) {
            var ends: [Int32] = [-1, -1]
            let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
                throw CommandFailure(description: "no socket pair: errno \(errno)")
            }
            return (Descriptor(ends[0]), Descriptor(ends[1]))
        }

        private static func spawn(
            _ arguments: [String], _ output: Int32, _ descriptors: [Int32: Int32]
        ) throws -> pid_t {
            let setup = SpawnSetup(.ownGroup)
            setup.openNull(0, forWriting: false)
            setup.give(output, as: 1)
            setup.give(output, as: 2)
            for (number, descriptor) in descriptors { setup.give(descriptor, as: number) }
            do throws(SystemError) {
                return try setup.start(
                    arguments[0], isSearched: true, arguments: arguments,
                    environment: ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" })
            } catch {
                throw CommandFailure(description: "cannot \(error)")
            }
        }

        /// What it has written so far.
        var outputSoFar: String {
            collect()
            return String(decoding: collected.withLock { $0 }, as: UTF8.self)
        }

        /// Whether it has not ended.
        var isRunning: Bool {
            if status != nil { return false }
            return !Poll.isReadable(ended.number, before: .now)
        }

        /// Waits until it ends.
        /// - Throws: `CommandFailure` when it does not in time; then it is killed.
        func wait(deadline: Duration = Privileged.patience) throws -> CommandResult {
            let end = ContinuousClock.now + deadline
            while status == nil {
                // A pipe at its end is always readable.
                let ready = Poll.readable(isAtEnd ? [ended.number] : [output.number, ended.number], before: end)
                collect()
                if ready.contains(ended.number) {
                    reap()
                } else if ready.isEmpty {
                    kill()
                    throw CommandFailure(
                        description:
                            "'\(arguments.joined(separator: " "))' took longer than \(deadline) and wrote:\n\(outputSoFar)"
                    )
                }
            }
            return CommandResult(arguments: arguments, status: status ?? -1, output: outputSoFar)
        }

        /// Waits until it has written `text`.
        /// - Throws: `CommandFailure` when it does not in time, or ends before.
        func waitForOutput(containing text: String, deadline: Duration = Privileged.patience) throws {
            let end = ContinuousClock.now + deadline
            while !outputSoFar.contains(text) {
                let ready = Poll.readable([output.number, ended.number], before: end)
                guard !ready.isEmpty, ready.contains(output.number) && !isAtEnd else {
                    if outputSoFar.contains(text) { return }
                    let what =
                        ready.isEmpty ? "did not write '\(text)' within \(deadline)" : "ended without writing '\(text)'"
                    throw CommandFailure(
                        description: "'\(arguments.joined(separator: " "))' \(what), but:\n\(outputSoFar)")
                }
            }
        }

        /// Sends a signal to the process.
        func signal(_ number: Int32) {
            guard status == nil else { return }
            _ = Foundation.kill(processID, number)
        }

        /// Kills the process and its group. Safe to repeat.
        func kill() {
            guard status == nil else { return }
            _ = Foundation.kill(-processID, SIGKILL)
            _ = Foundation.kill(processID, SIGKILL)
            reap()
        }

        private func reap() {
            var raw: Int32 = 0
            while unsafe waitpid(processID, &raw, 0) < 0, errno == EINTR {}
            let signal = raw & 0x7f
            status = signal == 0 ? (raw >> 8) & 0xff : 128 + signal
            collect()
        }

        private var isAtEnd = false

        private func collect() {
            var bytes = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = unsafe read(output.number, &bytes, bytes.count)
                if count == 0 { isAtEnd = true }
                guard count > 0 else { return }
                collected.withLock { $0 += bytes[..<count] }
            }
        }
    }

    /// Waiting for descriptors, with a deadline and no sleeping.
    enum Poll {
        /// Those of `descriptors` that are readable (or in error) by `end` at the latest; empty when none is.
        static func readable(_ descriptors: [Int32], before end: ContinuousClock.Instant) -> Set<Int32> {
            var items = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            while true {
                let left = ContinuousClock.now.duration(to: end) / .milliseconds(1)
                let count = unsafe poll(&items, nfds_t(items.count), Int32(max(0, min(left.rounded(.up), 1e9))))
                if count < 0, errno == EINTR { continue }
                return Set(items.filter { $0.revents != 0 }.map(\.fd))
            }
        }

        /// Whether `descriptor` is readable by `end` at the latest.
        static func isReadable(_ descriptor: Int32, before end: ContinuousClock.Instant) -> Bool {
            !readable([descriptor], before: end).isEmpty
        }
    }
#endif
