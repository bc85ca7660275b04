// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// The requirements of the tests in this folder: root, the TUN driver and ip(8).
    ///
    /// Suites use `.enabled(if: Privileged.isAvailable)`. With `CI=true` they are always enabled, so that a missing
    /// requirement is a failure on a build machine.
    enum Privileged {
        /// Whether to run privileged tests.
        static let isAvailable = ProcessInfo.processInfo.environment["CI"] == "true" || missing.isEmpty

        /// The missing requirements.
        static let missing: [String] = {
            var missing: [String] = []
            if geteuid() != 0 { missing.append("root") }
            if !FileManager.default.fileExists(atPath: "/dev/net/tun") { missing.append("/dev/net/tun") }
            if (try? run(["ip", "-V"])) == nil { missing.append("ip(8)") }
            return missing
        }()

        /// The time limit of anything in these tests. It is generous, so that only an operation that hangs reaches it.
        static let patience: Duration = .seconds(60)
    }

    /// The result of a command.
    struct CommandResult: Sendable, CustomStringConvertible {
        /// The command and its arguments.
        var arguments: [String]
        /// The exit status; 128 and the signal's number after a signal.
        var status: Int32
        /// Its standard output and standard error together.
        var output: String

        var description: String {
            "'\(arguments.joined(separator: " "))' ended with status \(status) and wrote:\n\(output)"
        }
    }

    /// A command that could not be started, took too long or failed.
    struct CommandFailure: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs a command to completion.
    ///
    /// - Returns: Its result, with status zero.
    /// - Throws: `CommandFailure`, with the output, if it fails or exceeds the deadline; then it is killed.
    @discardableResult
    func run(_ arguments: [String], deadline: Duration = Privileged.patience) throws -> CommandResult {
        let result = try runAllowingFailure(arguments, deadline: deadline)
        guard result.status == 0 else { throw CommandFailure(description: "\(result)") }
        return result
    }

    /// Runs a command to completion and accepts any status.
    /// - Throws: `CommandFailure`, with the output, if it cannot be started or exceeds the deadline; then it is killed.
    func runAllowingFailure(_ arguments: [String], deadline: Duration = Privileged.patience) throws -> CommandResult {
        let process = try SpawnedProcess(arguments)
        return try process.wait(deadline: deadline)
    }
#endif
