// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import CredentialTunnel
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import PacketTunnelLinux
    import Synchronization
    import TunnelIO
    import TunnelServer
    import TunnelSystem

    /// `culvert credential-server run`.
    enum ServerRun {
        static func run(directory path: String, journal: String, console: Console) -> Int32 {
            do throws(CommandFailure) {
                // Before there is a second thread, which would stay who it was.
                try FolderOwner.makeJournal(journal, for: path)
                try FolderOwner.become(path, keeping: FolderOwner.capabilities)
                let directory = try ServerDirectory(existing: path)
                let configuration = try directory.configuration()
                let keys = try directory.keys()
                let logger = Logger(label: "server") { StandardErrorLogHandler(label: $0) }
                return SignalledRun.run(isImpatient: false) {
                    do throws(CommandFailure) {
                        try await serve(directory, configuration, keys, journal: journal, logger)
                        return ExitStatus.success
                    } catch {
                        return error.tell(console)
                    }
                }
            } catch {
                return error.tell(console)
            }
        }

        /// Serves until the task is cancelled.
        private static func serve(
            _ directory: ServerDirectory, _ configuration: ServerConfiguration, _ keys: ServerDirectory.Keys,
            journal: String, _ logger: Logger
        ) async throws(CommandFailure) {
            let notice = ServiceManagerNotice()
            var wanted = settings(configuration)
            wanted.journalFolder = journal
            let network: ServerNetwork
            let tun: LinuxTun
            let inForce: ServerNetworkSettings
            let layout = LaneLayout.automatic
            do throws(TunnelServerError) {
                network = try ServerNetwork(wanted, logger: logger)
                (tun, _, inForce) = try await network.start(isMultiQueue: layout.needsQueues)
            } catch {
                throw CommandFailure(error)
            }
            var failure: CommandFailure?
            do throws(CommandFailure) {
                let running = Running()
                let store = try FileCredentialStore(
                    directory, configuration, network: network, addresses: inForce.addresses, logger: logger,
                    disconnect: { running.disconnect($0, .removed) }, expire: { running.disconnect($0, .closed) })
                try await running.serve(store, configuration, keys, on: tun, layout, notice, logger)
            } catch {
                failure = error
            }
            notice.stopping()
            await network.stop()
            if let failure { throw failure }
        }

        private static func settings(_ configuration: ServerConfiguration) -> ServerNetworkSettings {
            var settings = ServerNetworkSettings(
                name: configuration.interface, mtu: configuration.mtu, addresses: configuration.addresses)
            settings.way4 = configuration.ipv4 == .masqueraded ? .masqueraded : .routed
            settings.way6 = configuration.ipv6 == .masqueraded ? .masqueraded : .routed
            settings.nameServers = configuration.nameServers
            settings.services = configuration.services.compactMap(ServerConfiguration.service).map {
                ServerNetworkSettings.Service($0.isTCP ? .tcp : .udp, $0.port)
            }
            settings.answersPings = configuration.answersPings
            settings.allowedNetworks = configuration.allowedNetworks
            settings.otherInterfaces = configuration.otherInterfaces
            settings.endsConnections = true
            return settings
        }

        /// The device, which the store that it is made with knows as well.
        private final class Running: Sendable {
            private let device = Mutex<CredentialServerDevice?>(nil)
            /// The time after which the server no longer waits for passwords that are hashed, and for the disk.
            private static let stopLimit = Duration.seconds(10)

            func disconnect(_ id: ClientID, _ reason: EndReason) { device.withLock { $0 }?.disconnect(id, reason) }

            func serve(
                _ store: FileCredentialStore, _ configuration: ServerConfiguration, _ keys: ServerDirectory.Keys,
                on tun: LinuxTun, _ layout: LaneLayout, _ notice: ServiceManagerNotice, _ logger: Logger
            ) async throws(CommandFailure) {
                var options = CredentialServerDevice.Options()
                options.limits.clients = configuration.clients
                options.limits.verifiers = store.verifiers
                options.layout = layout
                // A failure, or nil for a signal.
                let end = OneShot<TunnelIOError?>()
                let device = CredentialServerDevice(
                    privateKey: keys.privateKey, presharedKey: keys.presharedKey, store: store, tun: tun,
                    network: SystemDatagramNetwork(), port: configuration.port, options: options
                ) { end.finish($0) }
                self.device.withLock { $0 = device }
                defer { self.device.withLock { $0 = nil } }
                do throws(TunnelIOError) { try device.start() } catch {
                    await device.stop()
                    throw CommandFailure(error)
                }
                logger.notice(
                    "serving on UDP port \(configuration.port), interface \(configuration.interface)")
                notice.ready("serving on UDP port \(configuration.port)")
                let looks = Task {
                    while (try? await Task.sleep(for: .seconds(1))) != nil { await store.look() }
                }
                let failure = await withTaskCancellationHandler {
                    await end.value
                } onCancel: {
                    end.finish(nil)
                }
                looks.cancel()
                logger.notice("ending \(store.sessionCount) sessions")
                // A new task, since this one is cancelled. The sessions end first, even if the disk hangs.
                let outcome = await Task {
                    await withDeadline(Self.stopLimit, clock: ContinuousClock()) {
                        await device.stop()
                        await looks.value
                        // All sessions have ended: their addresses rest from now on.
                        await store.close()
                    }
                }.value
                if case .timedOut = outcome {
                    logger.error(
                        "the end took too long, maybe because of the disk: addresses rest from the next start on")
                }
                let statistics = device.statistics
                logger.info(
                    "logins: \(statistics.accepted) accepted, \(statistics.refused) refused; \(statistics.protocolDrops)"
                )
                if let failure { throw CommandFailure(failure) }
            }
        }
    }

    extension CommandFailure {
        init(_ error: TunnelIOError) {
            let isDenied = SystemError.isDenied(error.errno)
            let fix =
                switch error.errno {
                case EPERM: "run as root or with CAP_NET_ADMIN"
                case EACCES: "let everybody open /dev/net/tun, as udev does: chmod 0666 /dev/net/tun"
                default: ""
                }
            self.init("\(error)", status: isDenied ? ExitStatus.notPermitted : ExitStatus.failure, fix: fix)
        }

        init(_ error: TunnelServerError) {
            switch error {
            case .interface(let error): self.init(error)
            case .notRunning, .subnet, .refused: self.init("\(error)")
            case .network(let error):
                let status =
                    if case .tunnelRunning = error.code {
                        ExitStatus.alreadyRunning
                    } else if SystemError.isDenied(error.errno) {
                        ExitStatus.notPermitted
                    } else {
                        ExitStatus.failure
                    }
                self.init("\(error)", status: status)
            }
        }
    }
#endif
