// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnelLinux
    import Synchronization
    import TunnelSystem
    import WireGuardTunnel

    /// The process beside a tunnel's that starts programs for it: nft and resolvconf, the file's commands, requests to a gateway.
    ///
    /// It reads the file or profile by itself, before anything comes from a network, and runs nothing that is not there.
    enum TunnelPrograms {
        /// Starts it. To be called before there are threads, and before anything is given up.
        static func start(_ command: UpCommand, atRoot: Bool) throws(SystemError) -> ProgramClient {
            var arguments = Array(CommandLine.arguments.dropFirst())
            arguments.removeAll { $0 == "--foreground" }
            if let index = arguments.firstIndex(of: "--report-descriptor") {
                arguments.removeSubrange(index..<min(index + 2, arguments.count))
            }
            let kept = ["PATH", "HOME", "LANG", "TZ", RuntimeDirectory.variable].compactMap { name in
                StandardStream.environment(name).map { "\(name)=\($0)" }
            }
            return try ProgramClient(
                program: SpawnPlatform.ownProgram,
                arguments: ["culvert"] + arguments + ["--run-programs", atRoot ? "root" : "here"], environment: kept)
        }

        /// What the process does, until the tunnel's is gone.
        static func serve(_ command: UpCommand, atRoot: Bool) -> Int32 {
            // A service manager tells all processes to end; this one is needed until the tunnel is down.
            for number in [SIGTERM, SIGINT, SIGHUP] { _ = signal(number, SIG_IGN) }
            _ = ctunnel_forbid_dumps()
            let loaded = Mutex<LoadedTunnel?>(nil)
            let source = command
            _ = SignalledRun.run(isImpatient: false) {
                // What is wrong with it, the tunnel's process says.
                let tunnel = try? await source.load()
                loaded.withLock { $0 = tunnel }
                return ExitStatus.success
            }
            let tunnel = loaded.withLock { tunnel in
                defer { tunnel = nil }
                return tunnel
            }
            let scope = scope(tunnel, command)
            if atRoot { unsafe _ = chdir("/") }
            ProgramServer(scope).serve(ProgramClient.socketNumbers)
            return ExitStatus.success
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
        /// A file that may be for others to read: then the process that starts programs does it.
        init(path: String, by programs: ProgramClient) {
            self.init(path: path, isRegular: true)
            guard isForbidden, programs.scope.file == path, let (file, bytes) = programs.file() else { return }
            self.init(
                name: path, bytes: bytes, owner: file.isRegular ? file.owner : nil, mode: file.mode, errno: file.errno,
                isRegular: file.isRegular)
        }
    }
#endif
