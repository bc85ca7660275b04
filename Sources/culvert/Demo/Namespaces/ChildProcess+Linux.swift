// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux
    import TunnelIO

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A program that was started by this one, in a process group of its own: Ctrl-C on the terminal is for us to handle.
    final class ChildProcess {
        /// The process.
        let id: pid_t
        /// What the program writes to standard output and error.
        private let output: Int32
        private var text: [UInt8] = []
        private var isAtEnd = false
        private var status: Int32?

        /// What came of a program.
        struct Outcome {
            var exitStatus: Int32
            var text: String
        }

        /// Starts a program, which is looked for in `PATH` unless its name has a slash.
        /// - Parameters:
        ///   - environment: added to this process's.
        ///   - report: a descriptor that the program gets as number ``reportNumber``.
        /// - Throws: `DemoFailure` when it cannot be started.
        init(_ arguments: [String], environment: [String] = [], report: Int32? = nil) throws(DemoFailure) {
            let ends = try ChildProcess.makePipe()
            defer { close(ends.writing) }
            let setup = SpawnSetup(.ownGroup)
            setup.openNull(0, forWriting: false)
            setup.give(ends.writing, as: 1)
            setup.give(ends.writing, as: 2)
            if let report { setup.give(report, as: ChildProcess.reportNumber) }
            let inherited = ["PATH", "HOME", "LANG"].compactMap { name in
                StandardStream.environment(name).map { "\(name)=\($0)" }
            }
            let name = arguments.first ?? ""
            // Numbers and words of the tools are read, so they are asked for in one language.
            let (child, error) = setup.start(
                name, isSearched: true, arguments: arguments, environment: inherited + ["LC_ALL=C"] + environment)
            guard error == 0 else {
                close(ends.reading)
                throw DemoFailure("cannot run \(name): \(unsafe String(cString: strerror(error)))")
            }
            id = child
            output = ends.reading
        }

        deinit {
            if status == nil {
                kill(id, SIGKILL)
                var ignored: Int32 = 0
                unsafe _ = waitpid(id, &ignored, 0)
            }
            close(output)
        }

        /// The number of the descriptor that a program may report through.
        static let reportNumber: Int32 = 9

        /// A pipe whose ends no other program inherits.
        static func makePipe() throws(DemoFailure) -> (reading: Int32, writing: Int32) {
            var ends: (Int32, Int32) = (-1, -1)
            let made = unsafe withUnsafeMutableBytes(of: &ends) { raw in
                unsafe pipe(raw.bindMemory(to: Int32.self).baseAddress)
            }
            guard made == 0 else {
                throw DemoFailure("no more descriptors: \(unsafe String(cString: strerror(errno)))")
            }
            // Above the numbers that children use.
            let high = [ends.0, ends.1].map { fcntl($0, F_DUPFD_CLOEXEC, 20) }
            close(ends.0)
            close(ends.1)
            guard high[0] >= 0, high[1] >= 0 else { throw DemoFailure("no more descriptors") }
            return (high[0], high[1])
        }

        // MARK: - Waiting

        /// Waits until the program has ended.
        /// - Parameter interruption: ends the wait when it polls readable.
        /// - Throws: `DemoFailure` when the deadline passes or the user interrupts. The program runs on then.
        func wait(until deadline: Int64, interruption: Int32?) throws(DemoFailure) -> Outcome {
            while try read(until: deadline, interruption: interruption) {}
            if status == nil {
                var status: Int32 = 0
                while unsafe waitpid(id, &status, 0) < 0, errno == EINTR {}
                self.status = status
            }
            let raw = status ?? 0
            // The low seven bits name the signal that ended the program, if one did.
            let exitStatus = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + (raw & 0x7f)
            return Outcome(exitStatus: exitStatus, text: String(decoding: text, as: UTF8.self))
        }

        /// Waits until the program has ended, whoever it leaves behind that has its output open; kills its group when that
        /// takes too long.
        /// - Parameter isCancelled: asks the group to end once it is so, and kills what is left of it when the program has
        ///   ended and nobody has its output open any more, at the latest a second later.
        /// - Throws: `DemoFailure` when it had to be killed.
        func waitForExit(
            until deadline: Int64, isCancelled: () -> Bool = { false }
        ) throws(DemoFailure) -> Outcome {
            var deadline = deadline
            var wasAsked = false
            _ = fcntl(output, F_SETFL, O_NONBLOCK)
            while status == nil {
                if !wasAsked {
                    reap()
                } else if isAtEnd, hasEnded {
                    // Its number is the group's until it is reaped.
                    kill(-id, SIGKILL)
                    reap()
                }
                collect()
                guard status == nil else { break }
                if !wasAsked, isCancelled() {
                    wasAsked = true
                    deadline = LaneClock.now() + 1_000_000_000
                    kill(-id, SIGTERM)
                }
                guard LaneClock.now() < deadline else {
                    kill(-id, SIGKILL)
                    throw DemoFailure("took too long and was killed")
                }
                // Its end is looked for at least this often.
                var entry = pollfd(fd: isAtEnd ? -1 : output, events: Int16(POLLIN), revents: 0)
                unsafe poll(&entry, 1, 10)
            }
            return try wait(until: deadline, interruption: nil)
        }

        /// Takes the status of the program if it has ended.
        private func reap() {
            var raw: Int32 = 0
            if unsafe waitpid(id, &raw, WNOHANG) == id { status = raw }
        }

        /// Whether the program has ended; its status stays to be taken.
        private var hasEnded: Bool {
            var information = unsafe siginfo_t()
            let result = unsafe waitid(P_PID, id_t(id), &information, WEXITED | WNOHANG | WNOWAIT)
            // Left zero while it runs.
            return unsafe result == 0 && information.si_signo != 0
        }

        /// As many reads as empty a full pipe twice: who writes without pause does not keep anybody from looking at the time.
        private static let readsPerTurn = 32

        /// Takes what the program has written. Once it has ended, what others write is not waited for.
        private func collect() {
            var chunk = [UInt8](repeating: 0, count: 4096)
            defer { if status != nil { isAtEnd = true } }
            for _ in 0..<Self.readsPerTurn {
                let count = unsafe chunk.withUnsafeMutableBytes { unsafe systemRead(output, $0) }
                if count == 0 { isAtEnd = true }
                guard count > 0 else { return }
                text += chunk.prefix(min(count, max(0, 65_536 - text.count)))
            }
        }

        /// Waits until the program has written `words`.
        func wait(forOutput words: String, until deadline: Int64, interruption: Int32?) throws(DemoFailure) {
            while !String(decoding: text, as: UTF8.self).contains(words) {
                guard try read(until: deadline, interruption: interruption) else {
                    throw DemoFailure("ended early: \(lastLine)")
                }
            }
        }

        /// The last line that the program has written.
        var lastLine: String {
            String(decoding: text, as: UTF8.self).split(separator: "\n").last.map(String.init) ?? "without a message"
        }

        /// Waits for more output; false when there is none to come.
        private func read(until deadline: Int64, interruption: Int32?) throws(DemoFailure) -> Bool {
            guard !isAtEnd else { return false }
            try ChildProcess.awaitReadable(output, until: deadline, interruption: interruption)
            var chunk = [UInt8](repeating: 0, count: 4096)
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe systemRead(output, $0) }
            if count < 0, errno == EINTR { return true }
            guard count > 0 else {
                isAtEnd = true
                return false
            }
            text += chunk[..<count]
            return true
        }

        /// Waits until something can be read from `descriptor`, or its other end is closed.
        static func awaitReadable(
            _ descriptor: Int32, until deadline: Int64, interruption: Int32?
        ) throws(DemoFailure) {
            while true {
                let rest = deadline - LaneClock.now()
                guard rest > 0 else { throw DemoFailure("the deadline passed") }
                // A negative descriptor is skipped by poll.
                var entries = [
                    pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: interruption ?? -1, events: Int16(POLLIN), revents: 0),
                ]
                let count = unsafe poll(&entries, nfds_t(entries.count), Int32(clamping: rest / 1_000_000 + 1))
                if count < 0, errno == EINTR { continue }
                if entries[1].revents != 0 { throw DemoFailure.interrupted }
                if entries[0].revents != 0 { return }
            }
        }

        // MARK: - Ending

        /// Asks the program to end, and makes it end when it does not within a second.
        func end() {
            guard status == nil else { return }
            kill(id, SIGTERM)
            do throws(DemoFailure) {
                _ = try wait(until: LaneClock.now() + 1_000_000_000, interruption: nil)
            } catch {
                kill(id, SIGKILL)
                var status: Int32 = 0
                while unsafe waitpid(id, &status, 0) < 0, errno == EINTR {}
                self.status = status
            }
        }
    }

    private func systemRead(_ descriptor: Int32, _ bytes: UnsafeMutableRawBufferPointer) -> Int {
        unsafe read(descriptor, bytes.baseAddress, bytes.count)
    }
#endif
