// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem

    /// The demonstrations in network namespaces: runs namespaces.sh, and shows its reports.
    enum NamespaceScript {
        /// A scene of the script, or the error that explains why this system cannot show it. The script removes everything that it
        /// made, even if the task is cancelled, which ends it early.
        /// - Parameter command: The command without `--tun`.
        static func make(for command: String) throws(CommandFailure) -> DemoFlow {
            guard geteuid() == 0 else {
                throw CommandFailure(
                    "\(command) --tun makes network namespaces and interfaces, which needs root; "
                        + "try: sudo culvert \(command) --tun, or without privileges: culvert \(command)")
            }
            return run
        }

        @Sendable
        private static func run(_ scene: String, _ seconds: Int, _ report: DemoReport) async throws {
            let lines = try DescriptorPipe()
            let own = SystemCall.linkTarget("/proc/self/exe") ?? ""
            let folder = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
            let script = String(decoding: PackageResources.namespaces_sh, as: UTF8.self)
            let child = try ChildProcess(
                "/bin/sh", arguments: ["sh", "-c", script, "namespaces.sh", scene, folder, "\(seconds)"],
                environment: ProcessEnvironment.assignments(["PATH", "HOME", "LANG", "TMPDIR"]),
                descriptors: [9: lines.writer.number])
            lines.writer.close()
            var (buffer, rest) = ([UInt8](repeating: 0, count: 4096), [UInt8]())
            let group = -child.id
            await withTaskCancellationHandler {
                while true {
                    let count = unsafe buffer.withUnsafeMutableBytes {
                        unsafe SystemCall.read(lines.reader.number, into: $0)
                    }
                    guard count > 0 else { return }
                    rest += buffer.prefix(count)
                    while let end = rest.firstIndex(of: 0x0a) {
                        report.show(String(decoding: rest[..<end], as: UTF8.self))
                        rest.removeSubrange(...end)
                    }
                }
            } onCancel: {
                // The whole group: the shell waits for the program that it runs. The number is the script's until the wait below.
                kill(group, SIGTERM)
            }
            guard case .ended(let outcome) = child.wait(until: .max) else { return }
            try Task.checkCancellation()
            guard outcome.status == 0 else { throw CommandFailure(outcome.lastLine) }
        }
    }
#endif
