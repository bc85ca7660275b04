// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import CredentialTunnel
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import Provisioning
    import TunnelIO
    import TunnelSystem
    import WireGuardDevice
    import WireGuardTunnel

    /// The process of one tunnel: it brings the tunnel up, answers other processes, and takes it down again.
    struct TunnelProcess: Sendable {
        var tunnel: LoadedTunnel
        /// Loads the tunnel's file or profile again, with its changes.
        var load: LoadedTunnel.Load
        var runtime: RuntimeDirectory
        var environments: ProviderEnvironments
        /// The longest time that the start of the tunnel may take.
        var startLimit: Duration
        var logLevel: Logger.Level = .info
        /// Whether lines of the log are also written to standard error.
        var isForeground: Bool
        /// Starts programs for this process, which may not start any.
        var programs: ProgramClient
        /// Called with the events of the start.
        var tell: @Sendable (StartEvent) -> Void
        var notice = ServiceManagerNotice()
        /// The log, once it is open; other processes can request it.
        var log: RingLogFile?

        /// Runs the tunnel until it ends, or the calling task is cancelled.
        /// - Returns: the exit status.
        func run() async -> Int32 {
            // This process's memory contains keys.
            _ = ctunnel_forbid_dumps()
            do throws(TunnelError) {
                let log = try openLog()
                // The command has already printed the warnings of the file.
                let warnings = StartWarnings(known: tunnel.warnings) { [tell] in tell(.warning($0)) }
                let logger = makeLogger(log, warnings)
                for warning in tunnel.warnings { logger.warning("\(warning)") }
                logger.notice("culvert \(programVersion): \(tunnel.name) from \(tunnel.source), process \(getpid())")
                logger.info("\(TransportAEAD.summary)")
                var process = self
                process.log = log
                // After the start's result the pipe has no reader.
                process.tell = { [tell] event in
                    switch event {
                    case .ready, .failed: warnings.end()
                    case .step, .warning: break
                    }
                    tell(event)
                }
                try process.raisePolicy(logger)
                return await process.run(log, logger)
            } catch {
                tell(.failed(error))
                if isForeground { StandardStream.write("error: \(error)\n", to: 2) }
                return tunnel.kind.status(of: error)
            }
        }

        private func run(_ log: RingLogFile, _ logger: Logger) async -> Int32 {
            do throws(TunnelError) {
                return try await life(tunnel.kind.configuration, log, logger)
            } catch {
                logger.log(level: error.code == .stopped ? .notice : .error, "the tunnel is not up: \(error)")
                tell(.failed(error))
                return tunnel.kind.status(of: error)
            }
        }

        // MARK: - Steps

        /// Raises the tunnel's policy to the policy that is held for it. This comes before all other steps, since the
        /// routes depend on the policy.
        private mutating func raisePolicy(_ logger: Logger) throws(TunnelError) {
            do throws(LinuxNetworkError) {
                let held = try LinuxPlatform.heldPolicy(
                    name: tunnel.name, untilReleased: true, options: tunnel.options(runtime))
                guard let held, held > tunnel.leakPolicy else { return }
                tunnel.leakPolicy = held
                logger.notice("the leak policy is '\(LeakPolicyName(held).rawValue)', which 'culvert guard' holds")
            } catch {
                throw TunnelError(host: error)
            }
        }

        private func openLog() throws(TunnelError) -> RingLogFile {
            do throws(LinuxNetworkError) {
                try JournalDirectory(path: runtime.path).prepare()
            } catch {
                throw TunnelError(host: error)
            }
            do throws(RingLogError) {
                return try RingLogFile(path: runtime.log(tunnel.name), ifInvalid: .recreate)
            } catch {
                throw TunnelError(.hostFailed, "\(error)")
            }
        }

        private func makeLogger(_ log: RingLogFile, _ warnings: StartWarnings) -> Logger {
            let sinks: [any LogSink] = isForeground ? [log, StandardErrorSink()] : [log, warnings]
            let level = logLevel
            return Logger(label: tunnel.name) { label in
                RedactingLogHandler(label: label, origin: .daemon, logLevel: level, sinks: sinks)
            }
        }

        private func makeHost<Configuration: TunnelKindConfiguration>(
            _ live: LiveTunnel<Configuration>, _ logger: Logger
        ) throws(TunnelError) -> (HookedHost<LinuxHost<Configuration.Provider>>, LinuxPlatform) {
            let (environments, name) = (environments, tunnel.name)
            let transport = PipeProvisioningTransport(logger: logger, programs: programs)
            do throws(LinuxNetworkError) {
                let host = try LinuxHost<Configuration.Provider>(
                    name: name, options: tunnel.options(runtime), secrets: live.secrets,
                    deadlines: .linux(start: startLimit), logger: logger, log: log
                ) {
                    Configuration.makeProvider(environments, interface: name, transport: transport)
                }
                let (runner, platform) = (HookRunner(logger: logger, programs: programs), host.platform)
                let hooks = TunnelHooks(
                    host, hooks: tunnel.hooks, logger: logger, proof: tunnel.proofAfterHooks,
                    checkAfterHooks: { Self.interfaceError(name) },
                    releaseGuard: { await platform.releaseGuard() }
                ) { command throws(TunnelError) in try await runner.run(command) }
                return (HookedHost(host, hooks: hooks), platform)
            } catch {
                throw TunnelError(host: error)
            }
        }

        /// The error of a tunnel whose interface does not exist.
        private static func interfaceError(_ name: String) -> TunnelError? {
            guard unsafe if_nametoindex(name) == 0 else { return nil }
            return TunnelError(
                .hostFailed, "the file's PostUp has deleted the interface '\(name)'", fix: "correct the file's commands"
            )
        }

        /// Applies the policy before anything else, so that it stays in effect whether or not the start succeeds.
        private func hold() throws(TunnelError) {
            let options = tunnel.options(runtime)
            do throws(LinuxNetworkError) {
                guard blocks else {
                    _ = try LinuxPlatform.cleanUp(name: tunnel.name, options: options)
                    return
                }
                try LinuxPlatform.hold(
                    tunnel.leakPolicy, settings: tunnel.kind.settings, name: tunnel.name,
                    options: options)
            } catch {
                throw TunnelError(host: error)
            }
        }

        /// Whether the policy stays in effect if the tunnel fails.
        private var blocks: Bool { tunnel.leakPolicy.blocksAfterFailure }

        /// The users besides root who may see the tunnel's status and stop it. From here on they can reach its socket.
        private func permittedUsers() throws(TunnelError) -> Set<UInt32> {
            let users: Set<UInt32>
            do throws(CommandProblem) {
                users = try SystemUsers.numbers(tunnel.permittedUsers)
            } catch {
                throw TunnelError(.configurationInvalid, error.text)
            }
            guard !users.isEmpty else { return [] }
            do throws(LinuxNetworkError) {
                try JournalDirectory(path: runtime.path).allowTraversal()
            } catch {
                throw TunnelError(host: error)
            }
            return users
        }

        /// Starts the tunnel with the configuration that was loaded last.
        private typealias Start = () async throws(TunnelError) -> Void

        private func life<Configuration: TunnelKindConfiguration>(
            _ configuration: Configuration, _ log: RingLogFile, _ logger: Logger
        ) async throws(TunnelError) -> Int32 {
            let live = LiveTunnel(tunnel, configuration, load: load)
            let (host, platform) = try makeHost(live, logger)
            let start: Start = { () throws(TunnelError) in
                let configuration = live.configuration
                try await host.start(
                    configuration, leakPolicy: configuration.leakPolicy, profileID: live.tunnel.profileID)
            }
            let startedAt = Double(ProcessEnvironment.wallClock()) / 1e9
            func registerReports(_ router: MessageRouter) {
                router.on(ServiceReportRequest.self) { _ in
                    let tunnel = live.tunnel
                    let report = ServiceReport(
                        tunnel, publicKey: await tunnel.publicKey(), processID: getpid(), startedAt: startedAt)
                    return await report.now(Configuration.self, host.runner, platform)
                }
                router.on(ServiceLogRequest.self) { ServiceLogRequest.Reply($0, log) }
            }
            let users = try permittedUsers()
            let service = try TunnelService(host: host, path: runtime.socket(tunnel.name), guests: users) { router in
                registerReports(router)
                router.on(ReloadRequest.self) { _ in
                    logger.notice("reading \(live.tunnel.source) again")
                    do throws(TunnelError) {
                        return try await live.reload { work throws(TunnelError) in
                            try await host.runner.withProvider(within: .seconds(60), work)
                        }
                    } catch {
                        logger.error("the tunnel continues unchanged: \(error)")
                        throw HandlerFailure(code: error.code.rawValue, message: error.description)
                    }
                }
            } registerForRestrictedUsers: { router in
                registerReports(router)
            }
            tell(.step(tunnel.kind.server.map { "connecting to \($0)" } ?? "starting to listen"))
            notice.status("connecting")
            do throws(TunnelError) {
                try hold()
            } catch {
                // The policy that was held before the attempt stays in effect.
                await end(nil, service)
                throw error
            }
            let status: Int32
            do throws(TunnelError) {
                try await start()
                status = await serve(host, logger, start: start)
            } catch {
                // The error is reported after all changes were undone, except for the policy's firewall if it stays.
                let stays = blocks && error.code != .stopped
                await end(stays ? nil : host, service)
                throw stays ? error.stayingBlocked(tunnel.name) : error
            }
            await end(host, service)
            return status
        }

        /// Waits for the end of a tunnel that is up.
        /// - Parameter start: starts it again, if it has failed.
        private func serve(_ host: any TunnelHost, _ logger: Logger, start: Start) async -> Int32 {
            let readiness: StartEvent.Readiness =
                if tunnel.kind.server == nil {
                    .listening
                } else if host.status.status == .connected {
                    .connected
                } else {
                    .trying
                }
            tell(.ready(process: getpid(), readiness))
            notice.ready(readiness == .trying ? "not connected yet; it continues to try" : readiness.rawValue)
            while let ending = await ended(host) {
                switch ending {
                case .down(nil): return ExitStatus.success
                case .down(let error?):
                    logger.error("the tunnel has ended: \(error)")
                    return tunnel.kind.status(of: error)
                case .blocked:
                    // Without another attempt, its policy would block the traffic forever.
                    guard await startAgain(logger, start: start) else {
                        logger.notice("asked to end")
                        return ExitStatus.success
                    }
                }
            }
            // The task was cancelled by a signal.
            logger.notice("asked to end")
            return ExitStatus.success
        }

        /// The end of a tunnel that was up.
        private enum Ending {
            case down(TunnelError?)
            /// It has failed, and its policy holds.
            case blocked
        }

        /// Waits for the end of the tunnel. If it ended because no data arrived, as its setting demands, it is not
        /// started again: it stays blocked until the user stops it.
        /// - Returns: `nil` if a signal cancelled the task.
        private func ended(_ host: any TunnelHost) async -> Ending? {
            for await update in host.statusUpdates() {
                notice.status(update.status.rawValue)
                switch update.status {
                case .disconnected: return .down(update.error)
                case .blocked where update.error?.code != .connectivityLost: return .blocked
                default: continue
                }
            }
            return nil
        }

        /// Starts a failed tunnel with the last reloaded configuration. It tries until the start succeeds.
        /// - Returns: false if a signal cancelled the task.
        private func startAgain(_ logger: Logger, start: Start) async -> Bool {
            var backOff = BackOff()
            while true {
                let delay = backOff.next()
                notice.status("has failed; trying again in \(delay.components.seconds) s")
                logger.notice(
                    "trying again in \(delay.components.seconds) s; the policy stays in effect meanwhile"
                )
                guard (try? await Task.sleep(for: delay)) != nil else { return false }
                do throws(TunnelError) {
                    try await start()
                    logger.notice("the tunnel is up again")
                    return true
                } catch {
                    if Task.isCancelled || error.code == .stopped { return false }
                    logger.error("the tunnel is not up: \(error)")
                }
            }
        }

        /// Stops everything, in a separate task that cannot be cancelled.
        /// - Parameter host: `nil` if the host has failed, and its policy must stay in effect.
        private func end(_ host: (any TunnelHost)?, _ service: TunnelService) async {
            notice.stopping()
            await Task {
                await host?.stop(.userInitiated)
                await service.close()
            }
            .value
        }
    }

    extension ServiceReport {
        /// The report as it is now.
        func now<Configuration: TunnelKindConfiguration>(
            _ kind: Configuration.Type, _ runner: TunnelRunner<Configuration.Provider>, _ platform: LinuxPlatform
        ) async -> ServiceReport {
            var report = self
            let repairs = platform.repairs
            (report.repairs, report.lastRepair) = (repairs.count, repairs.last)
            report.problems = platform.problems.map { Problem(what: $0.what, since: $0.since) }
            report.leakPolicy = max(report.leakPolicy, platform.leakPolicy)
            report.status = runner.status
            report.residentBytes = ProcessMemory.residentBytes
            (report.aead, report.aeadRejection) = (TransportAEAD.name, TransportAEAD.rejection?.description)
            return report.status.status.isRunning ? await report.updated(kind, from: runner) : report
        }
    }

    extension TunnelError {
        /// The same error, with the policy that is still in effect.
        fileprivate func stayingBlocked(_ name: String) -> TunnelError {
            TunnelError(
                code, "\(message); the leak policy holds until 'culvert down \(name)'", fix: fix, problems: problems)
        }

        /// The error of a host that could not be made.
        init(host error: LinuxNetworkError) {
            self.init(error)
            if code == .settingsFailed { code = .hostFailed }
        }
    }

    extension ProcessMemory {
        /// The process's resident bytes; zero if the system does not report them.
        static var residentBytes: Int {
            let fields = CheckedFile(path: "/proc/self/statm").bytes?.split(separator: UInt8(ascii: " ")) ?? []
            guard fields.count > 1, let pages = Int(String(decoding: fields[1], as: UTF8.self)) else { return 0 }
            return pages * sysconf(Int32(_SC_PAGESIZE))
        }
    }
#endif
