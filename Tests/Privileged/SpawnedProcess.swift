// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem

    /// A process in its own process group. Its output is collected. Releasing this object kills the process and its
    /// group.
    ///
    /// Only one test at a time may use it, because two threads must not wait for it at the same time.
    final class SpawnedProcess: @unchecked Sendable {
        let arguments: [String]
        private let child: ChildProcess

        var processID: pid_t { child.id }

        /// Starts `arguments[0]`, searched in PATH, without standard input.
        /// - Parameter descriptors: Further descriptors: their numbers in the child process and in this process.
        /// - Throws: `CommandFailure`.
        init(_ arguments: [String], descriptors: [Int32: Int32] = [:]) throws {
            self.arguments = arguments
            // A descriptor of this process may have a number that the child needs, so copy it to a large number, which
            // the child never uses.
            var copies: [Int32: Int32] = [:]
            defer { for copy in copies.values { close(copy) } }
            for (number, descriptor) in descriptors {
                let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 100)
                guard copy >= 0 else {
                    throw CommandFailure(description: "cannot duplicate descriptor \(descriptor): errno \(errno)")
                }
                copies[number] = copy
            }
            do throws(SystemError) {
                child = try ChildProcess(
                    arguments[0], isSearched: true, arguments: arguments,
                    environment: ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" },
                    descriptors: copies, outputLimit: .max)
            } catch {
                throw CommandFailure(description: "cannot \(error)")
            }
        }

        /// The output so far.
        var outputSoFar: String { child.outputSoFar }

        /// Whether the process is still running.
        var isRunning: Bool { child.isRunning }

        /// Waits until the process ends.
        /// - Throws: `CommandFailure` if it does not end in time; it is then killed.
        func wait(deadline: Duration = Privileged.patience) throws -> CommandResult {
            guard case .ended(let outcome) = child.wait(until: LaneClock.now() + deadline.inNanoseconds) else {
                throw failure("took longer than \(deadline) and wrote:\n\(child.destroy().output)")
            }
            return CommandResult(arguments: arguments, status: outcome.status, output: outcome.output)
        }

        /// Waits until the process has written `text`.
        /// - Throws: `CommandFailure` if it does not do so in time, or ends first.
        func waitForOutput(containing text: String, deadline: Duration = Privileged.patience) throws {
            switch child.wait(forOutput: text, until: LaneClock.now() + deadline.inNanoseconds) {
            case nil: break
            case .ended: throw failure("ended without writing '\(text)', but:\n\(outputSoFar)")
            case .timedOut, .interrupted:
                throw failure("did not write '\(text)' within \(deadline), but:\n\(outputSoFar)")
            }
        }

        private func failure(_ what: String) -> CommandFailure {
            CommandFailure(description: "'\(arguments.joined(separator: " "))' \(what)")
        }

        /// Sends a signal to the process.
        func signal(_ number: Int32) {
            if isRunning { _ = Foundation.kill(processID, number) }
        }

        /// Kills the process and its group. It may be called repeatedly.
        func kill() { child.destroy() }
    }

    extension Duration {
        fileprivate var inNanoseconds: Int64 { Int64(self / .nanoseconds(1)) }
    }

    /// Waits for descriptors, with a deadline and without sleeping.
    enum Poll {
        /// Returns those of `descriptors` that are readable (or in error) by `end`; empty if there are none.
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
