// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnelTesting

    /// A daemon in the foreground, killed with its remains when this object is released.
    final class DaemonProcess {
        let program: DaemonProgram
        /// The interface's name.
        let name: String
        let namespace: Namespace
        let process: SpawnedProcess

        /// Starts a daemon in `namespace` and waits until it serves.
        /// - Parameters:
        ///   - environment: Variables in addition to `LOG_LEVEL=verbose`, as `NAME=value`.
        ///   - wrapper: A command that runs the daemon as its child.
        init(
            _ program: DaemonProgram, name: String = UniqueInterface.next(), in namespace: Namespace,
            environment: [String] = [], wrapper: [String] = []
        ) throws {
            self.program = program
            self.name = name
            self.namespace = namespace
            let command =
                ["ip", "netns", "exec", namespace.name, "env", "LOG_LEVEL=verbose"] + environment + wrapper
                + [program.path, "-f", name]
            process = try SpawnedProcess(
                program == .wireguardGo ? ["env", "WG_PROCESS_FOREGROUND=1"] + command : command)
            let process = process
            try eventually("\(program.rawValue) \(name) serves") {
                guard process.isRunning else {
                    throw CommandFailure(description: "\(program.rawValue) ended:\n\(process.outputSoFar)")
                }
                return ManagementClient.isAnswered(ManagementClient.path(name))
            }
        }

        deinit {
            process.kill()
            unsafe _ = unlink(ManagementClient.path(name))
        }

        /// The log of the daemon.
        var log: String { process.outputSoFar }

        /// Waits until the daemon ends.
        func waitUntilEnded() throws -> CommandResult { try process.wait() }

        /// Asks the daemon to end, and waits until it has.
        @discardableResult
        func stop(_ signal: Int32 = SIGTERM) throws -> CommandResult {
            process.signal(signal)
            return try process.wait()
        }
    }

    /// The possible remains of a daemon.
    enum DaemonRemains {
        /// Returns the processes of a program that have a given argument.
        static func processes(of program: String, with argument: String) -> [pid_t] {
            let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
            return all.compactMap { pid_t($0) }.filter { process in
                let arguments = commandLine(of: process)
                guard let first = arguments.first else { return false }
                return (first as NSString).lastPathComponent == program && arguments.contains(argument)
            }
        }

        /// Returns a process's arguments; none if the process has ended, even if it was not reaped.
        static func commandLine(of process: pid_t) -> [String] {
            guard let data = FileManager.default.contents(atPath: "/proc/\(process)/cmdline") else { return [] }
            return data.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
        }

        /// Whether a process has an open descriptor of a file or folder.
        static func hasOpened(_ path: String, _ process: pid_t) -> Bool {
            let folder = "/proc/\(process)/fd"
            let numbers = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return numbers.contains {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")) == path
            }
        }

        /// Returns a line of `/proc/PID/status` without its key, for the process or one of its threads.
        static func status(_ key: String, of process: pid_t, thread: String? = nil) -> String? {
            let path = "/proc/\(process)/" + (thread.map { "task/\($0)/" } ?? "") + "status"
            guard let data = FileManager.default.contents(atPath: path) else { return nil }
            let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
            guard let line = lines.first(where: { $0.hasPrefix(key + ":") }) else { return nil }
            return line.dropFirst(key.count + 1).trimmingCharacters(in: .whitespaces)
        }

        /// Whether an interface exists in a namespace.
        static func hasInterface(_ name: String, in namespace: Namespace) throws -> Bool {
            try namespace.runAllowingFailure("ip", "link", "show", "dev", name).status == 0
        }

        /// Returns the remains of an interface's daemon: none after a clean end.
        static func of(_ name: String, in namespaces: Namespace...) throws -> [String] {
            var remains = processes(of: "culvert-wg", with: name).map { "process \($0)" }
            if FileManager.default.fileExists(atPath: ManagementClient.path(name)) { remains.append("socket") }
            for namespace in namespaces where try hasInterface(name, in: namespace) {
                remains.append("interface in \(namespace.name)")
            }
            return remains
        }
    }

    /// A culvert-wg in the background, ended by name when this object is released.
    final class BackgroundDaemon {
        let name: String
        let namespace: Namespace
        /// The result of the start command.
        let start: CommandResult

        init(
            name: String = UniqueInterface.next(), in namespace: Namespace, environment: [String] = []
        ) throws {
            self.name = name
            self.namespace = namespace
            start = try PrivilegedTests.runAllowingFailure(
                ["ip", "netns", "exec", namespace.name, "env"] + environment + [DaemonProgram.culvert.path, name])
        }

        deinit {
            for process in processes { kill(process, SIGKILL) }
            unsafe _ = unlink(ManagementClient.path(name))
        }

        /// The daemon's processes: one while it runs.
        var processes: [pid_t] { DaemonRemains.processes(of: "culvert-wg", with: name) }
    }
#endif
