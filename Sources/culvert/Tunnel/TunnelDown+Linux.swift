// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnel
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem
    import WireGuardDevice

    /// Takes a tunnel down.
    enum TunnelDown {
        /// The total time that a command waits for the lock of the journals.
        private static let lockLimit = Duration.seconds(30)

        /// Ends a tunnel's process, or cleans up after one that died.
        /// - Returns: The result, for people. It names a leak policy that stays because it is held.
        static func run(
            _ name: String, _ runtime: RuntimeDirectory, reason: StopReason = .userInitiated
        ) async throws(CommandProblem) -> String {
            let done = try await takeDown(name, runtime, reason)
            // The tunnel's end released any other policy.
            guard let held = runtime.heldPolicy(name) else { return done }
            return done + "\n  the leak policy '\(LeakPolicyName(held).rawValue)' is held and stays in effect until "
                + "'culvert guard \(name) --release'"
        }

        private static func takeDown(
            _ name: String, _ runtime: RuntimeDirectory, _ reason: StopReason
        ) async throws(CommandProblem) -> String {
            let began = ContinuousClock.now
            let channel = UnixTunnelChannel(path: runtime.socket(name))
            let report: ServiceReport
            do throws(MessageError) {
                report = try await channel.messages.send(ServiceReportRequest())
            } catch {
                guard error == .closed else { throw CommandProblem(unanswered(error, name, runtime)) }
                guard let holder = LockHolder.find(runtime.socketLock(name)) else { return try cleanUp(name, runtime) }
                try checkFolder(name, runtime)
                return try await end(holder, name, runtime, since: began)
            }
            try checkFolder(name, runtime)
            do throws(TunnelError) {
                try await channel.stop(reason)
            } catch {
                throw CommandProblem(error, of: name)
            }
            await channel.serviceEnd()
            return "down; it was \(report.status.status.rawValue)"
                + (try await finish(name, runtime, process: report.processID, since: began))
        }

        /// Checks that the tunnel's process will be able to undo its changes: no other process keeps the lock of the
        /// journals, and no other user can write to their folder.
        /// - Throws: the problem; the tunnel then stays up.
        private static func checkFolder(_ name: String, _ runtime: RuntimeDirectory) throws(CommandProblem) {
            // Other users may not open the folder.
            guard geteuid() == 0 else { return }
            do throws(LinuxNetworkError) {
                try JournalDirectory(path: runtime.path, lockLimit: lockLimit).locked {}
            } catch {
                // Undoing does not depend on a full or read-only file system.
                guard [EWOULDBLOCK, EPERM].contains(error.errno) else { return }
                throw CommandProblem(ExitStatus.failure, "\(name) stays up: \(error)")
            }
        }

        /// Waits until a tunnel's process has ended, and undoes the changes that it could not undo.
        private static func finish(
            _ name: String, _ runtime: RuntimeDirectory, process: Int32, since began: ContinuousClock.Instant
        ) async throws(CommandProblem) -> String {
            // The process has closed its socket and is about to end. Wait for it, since the caller of this command may
            // rely on its end.
            let deadline = LaneClock.now() + 10 * LaneClock.nanosecondsPerSecond
            _ = try? await BlockingWork.run("culvert-end") { cancellation in
                ChildProcess.wait(forEndOf: process, until: deadline, interruption: cancellation)
            }
            guard runtime.hasTunnel(name) else { return "" }
            do throws(LinuxNetworkError) {
                let rest = max(.seconds(1), lockLimit - (ContinuousClock.now - began))
                return lines(try undo(name, runtime, lockLimit: rest))
            } catch {
                // The process has undone the changes that it could undo; this user may not undo the rest.
                if geteuid() != 0, SystemError.isDenied(error.errno) {
                    return "\n  some of its changes are left; undo them as root: sudo culvert cleanup \(name)"
                }
                guard case .tunnelRunning(_, let owner) = error.code else { throw problem(error, name) }
                // Another process has started it again.
                guard owner == process else { return "" }
                throw problem(error, name)
            }
        }

        /// The longest time, in seconds, that a process may take to end after a signal: longer than its commands and
        /// the undoing of its changes may take.
        private static let secondsToEnd: Int64 = 180

        /// Ends a process whose control socket was deleted, by a signal.
        private static func end(
            _ holder: LockHolder, _ name: String, _ runtime: RuntimeDirectory, since began: ContinuousClock.Instant
        ) async throws(CommandProblem) -> String {
            let process = holder.process
            guard !holder.isStopped else { throw CommandProblem(stopped(process, name)) }
            guard kill(process, SIGTERM) == 0 || errno == ESRCH else {
                throw CommandProblem(
                    SystemError.isDenied(errno) ? ExitStatus.notPermitted : ExitStatus.failure,
                    "\(name): cannot end process \(process): \(SystemError.words(errno))")
            }
            let deadline = LaneClock.now() + secondsToEnd * LaneClock.nanosecondsPerSecond
            let hasEnded = try? await BlockingWork.run("culvert-end") { cancellation in
                ChildProcess.wait(forEndOf: process, until: deadline, interruption: cancellation)
            }
            guard hasEnded == true else {
                throw CommandProblem(
                    ExitStatus.failure,
                    "\(name): process \(process) got SIGTERM and has not ended\n"
                        + "  fix: kill -KILL \(process), and run 'culvert down \(name)'")
            }
            return "down; its control socket was deleted, so process \(process) was ended by a signal"
                + (try await finish(name, runtime, process: process, since: began))
        }

        private static func stopped(_ process: Int32, _ name: String) -> TunnelError {
            TunnelError(
                .channelFailed, "the process of tunnel '\(name)', \(process), is stopped and does not answer",
                fix: "kill -CONT \(process); or kill -KILL \(process), and run 'culvert down \(name)'")
        }

        /// Returns the error for a tunnel whose process serves its socket but does not answer.
        static func unanswered(_ error: MessageError, _ name: String, _ runtime: RuntimeDirectory) -> TunnelError {
            if let holder = LockHolder.find(runtime.socketLock(name)), holder.isStopped {
                return stopped(holder.process, name)
            }
            if case .notPermitted(let reason) = error {
                return TunnelError(.permissionDenied, reason, fix: "run as root")
            }
            return TunnelError(
                .channelFailed, "the process of tunnel '\(name)' does not answer: \(error)",
                fix: "kill it and run this again; see culvert log \(name)")
        }

        /// Undoes the changes of a tunnel whose process died.
        private static func cleanUp(_ name: String, _ runtime: RuntimeDirectory) throws(CommandProblem) -> String {
            guard runtime.hasTunnel(name) || LinuxPlatform.hasRemains(name: name) else {
                // Fails if the folder may not be read.
                _ = try runtime.tunnels()
                if LinuxPlatform.hasInterface(name),
                    let (holder, path) = LockHolder.find(fileName: "\(name).sock.lock")
                {
                    let folder = quoted(path)
                    throw CommandProblem(
                        ExitStatus.failure,
                        "tunnel '\(name)' is run by \(holder), whose runtime folder is \(folder) and not \(runtime.path): it may "
                            + "have been moved\n  fix: move it back, or culvert down \(name) --runtime-directory \(folder)"
                    )
                }
                throw CommandProblem(ExitStatus.notFound, "tunnel '\(name)' is not up")
            }
            let undone: [String]
            do throws(LinuxNetworkError) { undone = try undo(name, runtime) } catch { throw problem(error, name) }
            runtime.removeSocket(name)
            ManagementSocket.removeAbandoned(forInterface: name)
            return "its process had died; cleaned up" + lines(undone)
        }

        /// Returns a path for a shell command: in quotation marks where necessary, without control characters.
        private static func quoted(_ path: String) -> String {
            let isPlain = path.utf8.allSatisfy { byte in
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                    || "0123456789/._=+-".utf8.contains(byte)
            }
            return isPlain ? path : "'\(LogText.visible(path).replacing("'", with: #"'\''"#))'"
        }

        private static func undo(
            _ name: String, _ runtime: RuntimeDirectory, lockLimit: Duration = lockLimit
        ) throws(LinuxNetworkError) -> [String] {
            try LinuxPlatform.cleanUp(
                name: name, directory: JournalDirectory(path: runtime.path, lockLimit: lockLimit))
        }

        private static func lines(_ undone: [String]) -> String { undone.map { "\n  undone: \($0)" }.joined() }

        private static func problem(_ error: LinuxNetworkError, _ name: String) -> CommandProblem {
            let isDenied = error.errno == EPERM || error.errno == EACCES
            return CommandProblem(isDenied ? ExitStatus.notPermitted : ExitStatus.failure, "\(name): \(error)")
        }
    }
#endif
