// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import Gateway
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import TunnelServer
    import WireGuardDevice

    /// The work of `culvert gateway run`.
    struct RunTool {
        var console: Console
        var directory: String
        /// The folder of the journal of the host's network; `nil` to run without a network.
        var journal: String?
        /// The implementation of ChaCha20-Poly1305.
        var aead = TransportAEAD.Choice.standard

        func run() -> Int32 {
            do throws(CommandFailure) {
                // Load the library while this process may still read the system's files.
                do throws(TransportAEADError) { try TransportAEAD.select(aead) } catch {
                    // As after wrong usage: a restart without a change cannot succeed.
                    throw CommandFailure("\(error)", status: ExitStatus.usage, fix: error.fix)
                }
                // Change the user before any thread is started, because other threads would keep their user.
                try become()
                // Raise the limit, because each connection needs a descriptor. A systemd unit raises it; in a shell it
                // is often 1,024.
                let descriptors = ctunnel_raise_descriptor_limit(16_384)
                let logger = Logger(label: "gateway") { RedactingLogHandler.standardError(label: $0) }
                logger.notice("\(TransportAEAD.summary)")
                let (folder, settings) = try open()
                let tool = self
                return SignalledRun.run(isImpatient: false) {
                    do throws(CommandFailure) {
                        // Start threads only after the signal handlers are installed: a signal on another thread would
                        // end the process without undoing its changes.
                        let network = try tool.network(settings, logger)
                        try await Self.serve(folder, settings, network, descriptors: descriptors, logger)
                        return ExitStatus.success
                    } catch {
                        return error.report(to: tool.console)
                    }
                }
            } catch {
                return error.report(to: console)
            }
        }

        private func become() throws(CommandFailure) {
            if let journal {
                // Make the parent folder first, which is usually the folder of the socket.
                if let parent = journal.lastIndex(of: "/").map({ String(journal[..<$0]) }),
                    parent.hasPrefix("/run/")
                {
                    try FolderOwner.makeJournal(parent, for: directory)
                }
                try FolderOwner.makeJournal(journal, for: directory)
            }
            try FolderOwner.become(directory, keeping: FolderOwner.capabilities)
        }

        private func open() throws(CommandFailure) -> (GatewayDirectory, GatewaySettings) {
            do throws(GatewayDirectoryError) {
                let folder = try GatewayDirectory(existing: directory)
                // Lock the folder before anything on the host is changed or undone. Wait for a gateway that was just killed.
                try folder.lock(within: .seconds(2))
                return (folder, try Self.withReachableNameServers(try folder.settings()))
            } catch {
                throw CommandFailure(error)
            }
        }

        /// Replaces a resolver on this host, which devices cannot reach, by the resolvers to which it forwards.
        private static func withReachableNameServers(
            _ settings: GatewaySettings
        ) throws(GatewayDirectoryError) -> GatewaySettings {
            var settings = settings
            do throws(LinuxNetworkError) {
                // Limit the number, because a local resolver may use more resolvers than a device can get.
                let reachable = try GivenNameServers.reachable(settings.dns)
                settings.dns = Array(reachable.prefix(max(settings.dns.count, GatewaySettings.mostNameServers)))
            } catch {
                throw GatewayDirectoryError("\(error)")
            }
            return settings
        }

        private func network(
            _ settings: GatewaySettings, _ logger: Logger
        ) throws(CommandFailure) -> (any PeerNetwork)? {
            guard let journal else { return nil }
            var wanted = settings.serverNetwork
            wanted.journalFolder = journal
            do throws(TunnelServerError) { return try ServerNetwork(wanted, logger: logger) } catch {
                throw CommandFailure("\(error)")
            }
        }

        private static func serve(
            _ folder: GatewayDirectory, _ settings: GatewaySettings, _ network: (any PeerNetwork)?,
            descriptors: UInt64, _ logger: Logger
        ) async throws(CommandFailure) {
            let notice = ServiceManagerNotice()
            var options = GatewayProcess.Options(network: network, socketUser: geteuid())
            options.version = programVersion
            options.limits = HTTPLimits(
                descriptors: Int(clamping: descriptors), listeners: GatewayAPI.listenerCount(settings))
            do throws(GatewayProcessError) {
                let process = try GatewayProcess(folder, settings: settings, options, logger: logger)
                try await process.run { process in
                    let ports = GatewayAPI.Kind.allCases.compactMap { kind in
                        process.api.port(kind).flatMap { $0 > 0 ? "\(kind.rawValue) \($0)" : nil }
                    }
                    let login = process.runtime?.figures.login?.port.map { "; login tunnel on UDP port \($0)" } ?? ""
                    let words = "serving \(settings.host): ports \(ports.joined(separator: ", "))\(login)"
                    logger.notice("\(words)")
                    notice.ready(words)
                }
            } catch {
                notice.stopping()
                throw CommandFailure(error)
            }
            notice.stopping()
        }
    }

    extension CommandFailure {
        init(_ error: GatewayProcessError) {
            self.init(GatewayDirectoryError(error.reason, kind: error.kind, fix: error.fix))
            // Another gateway has answered on the socket, so it is already running.
            if error.kind == .exists { status = ExitStatus.alreadyRunning }
        }
    }
#endif
