// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Logging
    import PacketTunnel
    import WireGuardDevice

    /// Brings tunnels up.
    enum TunnelUp {
        static func run(_ command: UpCommand, console: Console) -> Int32 {
            let report = command.reportDescriptor.map { StartReport(descriptor: $0) }
            return SignalledRun.run(isImpatient: !command.foreground) {
                if command.foreground { return await serve(command, report, console) }
                return await launch(command, console)
            }
        }

        /// The tunnel, with what the user should know of it on this host.
        fileprivate static func load(_ command: UpCommand) async throws(CommandProblem) -> LoadedTunnel {
            var tunnel = try await command.load()
            if let wireGuard = tunnel.wireGuard, IPv6Outside.isLeft(by: wireGuard), IPv6Outside.isThere {
                tunnel.warnings.append(IPv6Outside.warning)
            }
            return tunnel
        }

        // MARK: - The service

        private static func serve(_ command: UpCommand, _ report: StartReport?, _ console: Console) async -> Int32 {
            do throws(CommandProblem) {
                let tunnel = try await load(command)
                // Keeps no file system from being unmounted.
                if report != nil { unsafe _ = chdir("/") }
                report?.watch()
                let process = TunnelProcess(
                    tunnel: tunnel, load: command.reloading(tunnel), runtime: command.runtime.directory,
                    budget: try? MemoryBudget(text: command.memory, lanes: 1),
                    startLimit: .seconds(2 * command.timeout + 20), logLevel: command.verbose ? .debug : .info,
                    isForeground: report == nil, tell: { report?.tell($0) })
                return await process.run()
            } catch {
                report?.tell(.failed(TunnelError(.configurationInvalid, error.text)))
                return error.tell(console)
            }
        }

        // MARK: - The command

        private static func launch(_ command: UpCommand, _ console: Console) async -> Int32 {
            do throws(CommandProblem) {
                // Its mistakes are told here, before anything is begun.
                let tunnel = try await load(command)
                for warning in tunnel.warnings { console.problem("warning: \(warning)") }
                try await start(tunnel, command, console)
                return ExitStatus.success
            } catch {
                return error.tell(console)
            }
        }

        private static func start(
            _ tunnel: LoadedTunnel, _ command: UpCommand, _ console: Console
        ) async throws(CommandProblem) {
            let name = tunnel.name
            let arguments = Array(CommandLine.arguments.dropFirst())
            let began = ContinuousClock.now
            let channel = UnixTunnelChannel(path: command.runtime.directory.socket(name)) {
                (_) throws(TunnelError) in
                let launcher = ServiceLauncher(
                    arguments: ["culvert"] + arguments
                        + ["--foreground", "--report-descriptor", "\(ServiceLauncher.reportNumber)"],
                    limit: .seconds(2 * command.timeout + 150)
                ) { event in
                    switch event {
                    case .step(let text): console.line("\(name): \(text)")
                    case .warning(let text): console.problem("warning: \(text)")
                    case .ready(let process, let readiness):
                        console.line(
                            "\(name): \(readiness.text) after \(Figure.seconds(ContinuousClock.now - began)), process \(process); "
                                + "log: culvert log \(name)")
                    case .failed: break
                    }
                }
                try await launcher.launch()
            }
            if let report = try? await channel.messages.send(ServiceReportRequest(), timeout: .seconds(5)) {
                throw CommandProblem(
                    ExitStatus.alreadyRunning,
                    "tunnel '\(name)' is \(report.status.status.rawValue) already: process \(report.processID), from "
                        + "\(report.source)\n  fix: culvert down \(name)")
            }
            do throws(TunnelError) {
                try await channel.start(tunnel.request)
            } catch {
                throw CommandProblem(Task.isCancelled ? .interruptedStart : error, of: name)
            }
        }
    }

    extension UpCommand {
        /// The same command later, when the process may be in another folder.
        fileprivate func reloading(_ tunnel: LoadedTunnel) -> LiveTunnel.Load {
            var again = self
            if tunnel.profile == nil { again.tunnel = tunnel.source }
            again.interface = tunnel.name
            return { [again] () async throws(CommandProblem) in try await TunnelUp.load(again) }
        }
    }

    extension TunnelError {
        fileprivate static let interruptedStart = TunnelError(
            .stopped, "interrupted; the tunnel was taken down again")
    }
#endif
