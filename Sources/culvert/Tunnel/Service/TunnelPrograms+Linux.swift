// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnelLinux
    import Synchronization
    import TunnelSystem
    import WireGuardTunnel

    /// The processes that start programs for a tunnel's process: nft and resolvconf, the file's commands, requests to a gateway.
    ///
    /// The first process reads the file or profile itself, before any data arrives from a network. Then it only keeps
    /// the second process running, which starts programs, but only those that the first process named. `culvert up` starts
    /// the first process before it reads the file itself; the second process starts together with the tunnel's process.
    enum TunnelPrograms {
        /// Starts the first process. Call this before privileges are dropped.
        /// - Parameter atRoot: whether it works in the root folder, for a tunnel's process in the background.
        static func start(_ command: UpCommand, atRoot: Bool) throws(SystemError) -> SupervisorChannels {
            var arguments = Array(CommandLine.arguments.dropFirst())
            arguments.removeAll { $0 == "--foreground" }
            let place = atRoot ? Place.root : .here
            var command = command
            (command.foreground, command.runPrograms) = (false, place.rawValue)
            arguments += ["--run-programs", place.rawValue]
            return try SupervisorChannels.start(
                program: SpawnPlatform.ownProgram, arguments: ["culvert"] + arguments, environment: environment,
                input: PassedUp(command).text(for: arguments))
        }

        /// The values of `--run-programs` of the first process, which is in the root folder or in that of the command.
        private enum Place: String {
            case root, here
        }

        /// The last arguments of the second process.
        private static let serverArguments = ["--run-programs", "server"]

        private static var environment: [String] {
            ProcessEnvironment.assignments(["PATH", "HOME", "LANG", "TZ", RuntimeDirectory.variable])
        }

        /// Runs the second process, if these are its arguments, until the tunnel's process has ended. It needs none of the
        /// command's options, so it does not parse them.
        /// - Returns: The exit status; `nil` for other arguments.
        static func serve(_ arguments: [String]) -> Int32? {
            guard arguments.starts(with: ["up"]), arguments.suffix(2) == serverArguments[...] else { return nil }
            becomeHelper()
            return ProgramSupervisor.serve() ? ExitStatus.success : ExitStatus.failure
        }

        private static func becomeHelper() {
            // A service manager tells all processes to end; this one is needed until the tunnel is down.
            for number in [SIGTERM, SIGINT, SIGHUP] { _ = signal(number, SIG_IGN) }
            _ = ctunnel_forbid_dumps()
        }

        /// Runs the first process until the tunnel's process has ended.
        static func serve(_ command: UpCommand, place: String) -> Int32 {
            becomeHelper()
            guard let place = Place(rawValue: place) else { return ExitStatus.usage }
            let command = command.withAbsolutePaths
            if place == .root { unsafe _ = chdir("/") }
            do throws(SystemError) {
                let supervisor = ProgramSupervisor(
                    program: SpawnPlatform.ownProgram, arguments: ["culvert", "up", command.tunnel] + serverArguments,
                    environment: environment)
                try supervisor.run(scope(load(command), command))
                return ExitStatus.success
            } catch {
                ProgramSupervisor.report(error)
                return ExitStatus.failure
            }
        }

        /// Loads the tunnel. Returns `nil` if that fails: the tunnel's process reports the error.
        private static func load(_ command: UpCommand) -> LoadedTunnel? {
            let loaded = Mutex<LoadedTunnel?>(nil)
            _ = SignalledRun.run(isImpatient: false) {
                let tunnel = try? await command.load()
                loaded.withLock { $0 = tunnel }
                return ExitStatus.success
            }
            return loaded.withLock { tunnel in
                defer { tunnel = nil }
                return tunnel
            }
        }

        private static func scope(_ tunnel: LoadedTunnel?, _ command: UpCommand) -> ProgramScope {
            var commands = (tunnel?.hooks.all ?? []).map { HookRunner.command($0) }
            if case .enrolled? = tunnel?.kind, let request = PipeProvisioningTransport.command() {
                commands.append(request)
            }
            let isFile = TunnelName.isFile(command.tunnel)
            let file = isFile ? TunnelLoader.absolute(command.tunnel) : "/etc/wireguard/\(command.tunnel).conf"
            let port = tunnel?.wireGuard?.listenPort ?? 0
            return ProgramScope(
                tunnel: tunnel?.name ?? "", commands: commands,
                file: isFile || (tunnel?.profile == nil && TunnelName.isValid(command.tunnel)) ? file : nil,
                bindsLowPort: (1..<1024).contains(port))
        }
    }

    extension CheckedFile {
        /// Reads a file. If this process may not read the tunnel's file, the process that starts programs reads it.
        init(path: String, by programs: ProgramClient) {
            self.init(path: path, isRegular: true)
            guard isForbidden, programs.scope.file == path, let (file, bytes) = programs.file() else { return }
            self.init(
                name: path, bytes: bytes, owner: file.isRegular ? file.owner : nil, mode: file.mode, errno: file.errno,
                isRegular: file.isRegular)
        }
    }
#endif
