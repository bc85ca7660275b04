// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    package import CommandLineSupport
    import PacketTunnelLinux
    import TunnelIO
    import TunnelSystem

    /// A demonstration in network namespaces: runs namespaces.sh, and shows its reports.
    package enum NamespaceDemo {
        /// Runs the script, which removes everything that it made.
        /// - Parameters:
        ///   - scene: `tunnel` or `gateway`.
        ///   - command: The command without `--tun`, for the error message.
        ///   - finish: Called with the report at the end.
        /// - Returns: The exit status.
        package static func run(
            _ scene: String, seconds: Int, style: DemoView.Style, console: Console, command: String,
            finish: @escaping @Sendable (DemoReport) -> Void = { _ in }
        ) -> Int32 {
            guard geteuid() == 0 else {
                console.problem(
                    "culvert: \(command) --tun makes network namespaces and interfaces, which needs root; "
                        + "try: sudo culvert \(command) --tun, or without privileges: culvert \(command)")
                return ExitStatus.failure
            }
            return SignalledRun.run {
                do {
                    let cancellation = try DescriptorPipe()
                    defer { cancellation.reader.close() }
                    return try await withTaskCancellationHandler {
                        var lines = DemoLines(view: DemoView(style, console: console))
                        let status = try run(scene, seconds, cancellation.reader.number, &lines)
                        finish(lines.report)
                        if status == ExitStatus.interrupted {
                            console.problem("culvert: the demonstration was interrupted")
                        } else if let failure = lines.report.failure {
                            console.problem("culvert: the demonstration failed: \(failure)")
                        }
                        return status
                    } onCancel: {
                        cancellation.writer.close()
                    }
                } catch {
                    console.problem("culvert: \(error)")
                    return ExitStatus.failure
                }
            }
        }

        /// - Parameter interruption: Ends the demonstration when it polls readable.
        private static func run(
            _ scene: String, _ seconds: Int, _ interruption: Int32, _ shown: inout DemoLines
        ) throws(SystemError) -> Int32 {
            let lines = try DescriptorPipe()
            defer { lines.reader.close() }
            let own = SystemCall.linkTarget("/proc/self/exe") ?? ""
            let folder = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
            let environment = ["PATH", "HOME", "LANG", "TMPDIR"].compactMap { name in
                StandardStream.environment(name).map { "\(name)=\($0)" }
            }
            let script = String(decoding: PackageResources.namespaces_sh, as: UTF8.self)
            let child = try ChildProcess(
                "/bin/sh", arguments: ["sh", "-c", script, "namespaces.sh", scene, folder, "\(seconds)"],
                environment: environment, descriptors: [9: lines.writer.number])
            lines.writer.close()
            var (buffer, rest) = ([UInt8](repeating: 0, count: 4096), [UInt8]())
            var isInterrupted = false
            // The script ends by itself; nothing has the other end of the pipe after that.
            while let ready = ChildProcess.ready([lines.reader.number, isInterrupted ? -1 : interruption], until: .max)
            {
                if ready[1] {
                    isInterrupted = true
                    // The whole group: the shell waits for the program that it runs.
                    kill(-child.id, SIGTERM)
                }
                guard ready[0] else { continue }
                let count = unsafe buffer.withUnsafeMutableBytes {
                    unsafe SystemCall.read(lines.reader.number, into: $0)
                }
                guard count > 0 else { break }
                rest += buffer.prefix(count)
                while let end = rest.firstIndex(of: 0x0a) {
                    shown.show(String(decoding: rest[..<end], as: UTF8.self))
                    rest.removeSubrange(...end)
                }
            }
            guard case .ended(let outcome) = child.wait(until: .max) else { return ExitStatus.failure }
            shown.close(isInterrupted ? "interrupted" : outcome.status == 0 ? nil : outcome.lastLine)
            return isInterrupted ? ExitStatus.interrupted : outcome.status
        }
    }
#else
    package import CommandLineSupport

    /// Network namespaces are a feature of Linux.
    package enum NamespaceDemo {
        package static func run(
            _ scene: String, seconds: Int, style: DemoView.Style, console: Console, command: String,
            finish: @escaping @Sendable (DemoReport) -> Void = { _ in }
        ) -> Int32 {
            console.problem("culvert: demo --tun needs network namespaces, which only Linux has; try: culvert demo")
            return ExitStatus.failure
        }
    }
#endif
