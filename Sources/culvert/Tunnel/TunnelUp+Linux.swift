// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import Synchronization
    import TunnelSystem
    import WireGuardDevice

    /// Brings tunnels up.
    enum TunnelUp {
        /// Runs the process that starts programs for a tunnel, if these are its arguments, until the tunnel has ended.
        /// - Returns: the exit status; `nil` for other arguments.
        static func servePrograms(_ arguments: [String]) -> Int32? { TunnelPrograms.serve(arguments) }

        /// The command without the parser: with the options that another process of the tunnel has parsed and passed, if
        /// these are the arguments of such a process, or of arguments without options.
        static func readyCommand(_ arguments: [String]) -> UpCommand? {
            (PassedUp(for: arguments) ?? PassedUp(plain: arguments))?.command
        }

        static func run(_ command: UpCommand, console: Console) -> Int32 {
            if let place = command.runPrograms { return TunnelPrograms.serve(command, place: place) }
            guard command.foreground else { return SignalledRun.run { await launch(command, console) } }
            let report = command.reportDescriptor.map { StartReport(descriptor: $0) }
            return confined(command, report, console)
        }

        /// Runs the service in a process that drops its privileges before it has threads.
        private static func confined(_ command: UpCommand, _ report: StartReport?, _ console: Console) -> Int32 {
            // While this process may still read the system's libraries.
            do throws(CommandProblem) { try command.selectAEAD() } catch {
                report?.send(.failed(TunnelError(.configurationInvalid, error.text)))
                return error.report(to: console)
            }
            let programs: ProgramClient
            do throws(SystemError) {
                programs = try ProgramClient(
                    report == nil ? TunnelPrograms.start(command, atRoot: false) : ServiceLauncher.passedPrograms)
            } catch {
                report?.send(.failed(TunnelError(.hostFailed, "\(error)")))
                return CommandProblem(ExitStatus.failure, "\(error)").report(to: console)
            }
            let command = command.withAbsolutePaths
            // So that this process does not prevent a file system from being unmounted.
            if report != nil { unsafe _ = chdir("/") }
            let lacking = ProcessConfinement.enter(bindsLowPort: programs.scope.bindsLowPort)
            SystemProgram.runner.withLock { $0 = programs }
            return SignalledRun.run(isImpatient: false) {
                await serve(command, report, programs, lacking, console)
            }
        }

        /// The tunnel, with warnings about this host.
        fileprivate static func load(
            _ command: UpCommand, by programs: ProgramClient? = nil
        ) async throws(CommandProblem) -> LoadedTunnel {
            var tunnel = try await command.load { path in
                programs.map { CheckedFile(path: path, by: $0) } ?? CheckedFile(path: path, isRegular: true)
            }
            if let wireGuard = tunnel.wireGuard, IPv6Outside.isLeft(by: wireGuard), IPv6Outside.isThere {
                tunnel.warnings.append(IPv6Outside.warning)
            }
            return tunnel
        }

        // MARK: - The service

        private static func serve(
            _ command: UpCommand, _ report: StartReport?, _ programs: ProgramClient, _ lacking: [String],
            _ console: Console
        ) async -> Int32 {
            do throws(CommandProblem) {
                var tunnel = try await load(command, by: programs)
                tunnel.warnings += lacking
                guard
                    tunnel.hooks.all
                        == programs.scope.commands.prefix(tunnel.hooks.all.count).map({ $0.arguments.last })
                else {
                    throw CommandProblem(
                        ExitStatus.usage, "\(tunnel.source) has changed while it was read\n  fix: try again")
                }
                report?.watch()
                let process = TunnelProcess(
                    tunnel: tunnel, load: command.reloading(tunnel, by: programs), runtime: command.runtime.directory,
                    environments: ProviderEnvironments(command),
                    startLimit: .seconds(2 * command.timeout + 20), logLevel: command.verbose ? .debug : .info,
                    isForeground: report == nil, programs: programs, tell: { report?.send($0) })
                return await process.run()
            } catch {
                report?.send(.failed(TunnelError(.configurationInvalid, error.text)))
                return error.report(to: console)
            }
        }

        // MARK: - The command

        private static func launch(_ command: UpCommand, _ console: Console) async -> Int32 {
            // Starts while this process loads the tunnel. Without a tunnel's process, it ends.
            let programs = Result { () throws(SystemError) in try TunnelPrograms.start(command, atRoot: true) }
            defer { try? programs.get().close() }
            do throws(CommandProblem) {
                // Loads the tunnel here too, so that its mistakes are reported before its process is started.
                let tunnel = try await load(command)
                for warning in tunnel.warnings { console.problem("warning: \(warning)") }
                // A choice that can fail is checked here, for its own message and exit status.
                if command.aead == TransportAEAD.Choice.ipsecMB.rawValue { try command.selectAEAD() }
                let channels: SupervisorChannels
                do throws(SystemError) { channels = try programs.get() } catch {
                    throw CommandProblem(
                        TunnelError(.hostFailed, "\(error)"), of: tunnel.name, isLogin: tunnel.kind.isLogin)
                }
                try await start(tunnel, command, channels, console)
                return ExitStatus.success
            } catch {
                return error.report(to: console)
            }
        }

        private static func start(
            _ tunnel: LoadedTunnel, _ command: UpCommand, _ programs: SupervisorChannels, _ console: Console
        ) async throws(CommandProblem) {
            let name = tunnel.name
            let arguments =
                CommandLine.arguments.dropFirst()
                + ["--foreground", "--report-descriptor", "\(ServiceLauncher.reportNumber)"]
            let began = ContinuousClock.now
            if let report = try await running(name, command) {
                throw CommandProblem(
                    ExitStatus.alreadyRunning,
                    "tunnel '\(name)' is \(report.status.status.rawValue) already: process \(report.processID), from "
                        + "\(report.source)\n  fix: culvert down \(name)")
            }
            var service = command
            (service.foreground, service.reportDescriptor) = (true, ServiceLauncher.reportNumber)
            let launcher = ServiceLauncher(
                arguments: ["culvert"] + arguments, input: PassedUp(service).text(for: Array(arguments)),
                programs: programs,
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
            do throws(TunnelError) {
                try await launcher.launch()
            } catch {
                throw CommandProblem(
                    Task.isCancelled ? .interruptedStart : error, of: name, isLogin: tunnel.kind.isLogin)
            }
        }
    }

    extension TunnelUp {
        /// The report of a tunnel that runs already; `nil` if no process serves its socket.
        /// - Throws: if its process does not answer.
        private static func running(
            _ name: String, _ command: UpCommand
        ) async throws(CommandProblem) -> ServiceReport? {
            let channel = UnixTunnelChannel(path: command.runtime.directory.socket(name))
            do throws(MessageError) {
                return try await channel.messages.send(ServiceReportRequest(), timeout: .seconds(5))
            } catch .closed {
                return nil
            } catch .cancelled {
                throw CommandProblem(.interruptedStart, of: name)
            } catch {
                throw CommandProblem(TunnelDown.unanswered(error, name, command.runtime.directory))
            }
        }
    }

    extension UpCommand {
        /// The command with absolute paths, for a process that changes its folder.
        var withAbsolutePaths: UpCommand {
            var command = self
            if TunnelName.isFile(tunnel) { command.tunnel = TunnelLoader.absolute(tunnel) }
            command.profiles.path = profiles.folder.path
            command.runtime.runtimeDirectory = StandardStream.absolute(runtime.directory.path)
            return command
        }

        /// Returns a function that loads the tunnel again, even if the process is in another folder by then.
        fileprivate func reloading(_ tunnel: LoadedTunnel, by programs: ProgramClient) -> LoadedTunnel.Load {
            var again = self
            if tunnel.profile == nil { again.tunnel = tunnel.source }
            again.interface = tunnel.name
            return { [again] () async throws(CommandProblem) in try await TunnelUp.load(again, by: programs) }
        }
    }

    extension TunnelError {
        fileprivate static let interruptedStart = TunnelError(
            .stopped, "interrupted; the tunnel was taken down again")
    }
#endif
