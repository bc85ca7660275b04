// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A virtual machine with Debian's kernel, and the namespace at the other end of its two links. The link `data` is
    /// the network of the tunnels' endpoints; the link `control` is for a shell.
    ///
    /// The machine runs without hardware support, so it is slow, and all time limits are generous.
    final class VirtualMachine: Sendable {
        /// The host's side of the links: 10.77.0.1 and fd77::1; the machine has 10.77.0.2 and fd77::2.
        let namespace: Namespace
        private let process: SpawnedProcess

        /// The folder with `kernel` and `initrd` that a script names in a variable, or `nil` if there is no machine.
        static func folder(_ variable: String) -> String? {
            let path = ProcessInfo.processInfo.environment[variable] ?? ""
            return path.isEmpty ? nil : path
        }

        /// Boots the files of a folder, and waits for the machine's shell.
        /// - Parameter options: Options of qemu: its memory and its disks.
        init(_ folder: String?, _ options: [String]) throws {
            namespace = try Namespace()
            for (link, address) in [("data", "10.77.0.1/24"), ("control", "10.78.0.1/24")] {
                try namespace.run("ip", "tuntap", "add", "dev", link, "mode", "tap")
                try namespace.run("ip", "address", "add", address, "dev", link)
                try namespace.run("ip", "link", "set", link, "up")
            }
            try namespace.run("ip", "address", "add", "fd77::1/64", "dev", "data", "nodad")
            guard let folder else { throw CommandFailure(description: "there is no machine to boot") }
            var command =
                [
                    "ip", "netns", "exec", namespace.name, "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-cpu",
                    "max",
                    "-nodefaults", "-display", "none", "-serial", "stdio",
                    "-kernel", "\(folder)/kernel", "-initrd", "\(folder)/initrd", "-append",
                    "console=ttyS0 quiet panic=-1",
                    "-device", "virtio-rng-pci",
                ] + options
            for (index, link) in ["data", "control"].enumerated() {
                command += [
                    "-netdev", "tap,id=\(link),ifname=\(link),script=no,downscript=no",
                    "-device", "virtio-net-pci,netdev=\(link),mac=52:54:00:00:00:0\(index + 1)",
                ]
            }
            process = try SpawnedProcess(command)
            try process.waitForOutput(containing: "ready: ", deadline: .seconds(300))
            try waitForShell()
        }

        /// Waits until the machine's shell answers a command successfully.
        func waitForShell(_ question: String = "true", deadline: Duration = .seconds(60)) throws {
            try eventually("its shell answers", within: deadline) {
                guard process.isRunning else { throw CommandFailure(description: process.outputSoFar) }
                return (try? attempt(question, deadline: .seconds(20)))?.status == 0
            }
        }

        /// Runs a script in the machine, up to the first command that fails; returns its output.
        /// - Throws: `CommandFailure`, with the output, if a command fails.
        @discardableResult
        func shell(_ script: String, deadline: Duration = .seconds(60)) throws -> String {
            let result = try attempt(script, deadline: deadline)
            guard result.status == 0 else { throw CommandFailure(description: "in the machine: \(result)") }
            return result.output
        }

        /// Runs a script in the machine and accepts any status.
        func attempt(_ script: String, deadline: Duration = .seconds(60)) throws -> CommandResult {
            try Self.result(of: start(script), script, deadline: deadline)
        }

        /// Starts a script in the machine, concurrently with the test.
        func start(_ script: String) throws -> SpawnedProcess {
            // The shell there reads a script from the connection, and ends at its end.
            let sent = "(set -e\n\(script)\n) 2>&1; echo \"status $?\"\n"
            return try namespace.start(
                "sh", "-c", "printf '%s' \"$1\" | exec ncat 10.78.0.2 9000", "sh", sent)
        }

        /// Returns the result of a started script.
        static func result(
            of process: SpawnedProcess, _ script: String, deadline: Duration
        ) throws -> CommandResult {
            let output = try process.wait(deadline: deadline).output
            guard let mark = output.range(of: "status ", options: .backwards),
                let status = Int32(output[mark.upperBound...].trimmingCharacters(in: .whitespacesAndNewlines))
            else { throw CommandFailure(description: "'\(script)' in the machine did not end, but wrote:\n\(output)") }
            return CommandResult(arguments: [script], status: status, output: String(output[..<mark.lowerBound]))
        }
    }
#endif
