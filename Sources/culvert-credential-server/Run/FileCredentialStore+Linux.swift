// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import CredentialTunnel
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import Synchronization
    import TunnelIO
    import TunnelServer
    import TunnelSystem

    /// The file of users as the server's store. A ``LoginDesk`` verifies each login, on one of the threads that hash passwords. The
    /// firewall admits a client before it has its answer.
    final class FileCredentialStore: CredentialStore {
        private let directory: ServerDirectory
        private let configuration: ServerConfiguration
        private let network: ServerNetwork
        private let logger: Logger
        private let desk: LoginDesk<ClientID>
        private let hashing: WorkThreads
        /// The file of users as it was read last. Held while it is read, so that one change is read once.
        private let stamp = Mutex<ServerDirectory.Stamp?>(nil)
        private let keeper: AddressKeeper
        /// The thread that writes the file of addresses: a slow disk does not keep a password from being hashed.
        private let files: WorkThreads
        /// The time of the last login that had the file written without waiting for it.
        private let lastWrite = Mutex<Int64>(0)
        /// Whether a background write is under way.
        private let isWriting = Mutex(false)

        /// - Parameters:
        ///   - addresses: the server's own addresses that are in force.
        ///   - disconnect: ends a session.
        ///   - expire: ends a session whose client may log in again immediately.
        init(
            _ directory: ServerDirectory, _ configuration: ServerConfiguration, network: ServerNetwork,
            addresses: [InterfaceAddress], logger: Logger, disconnect: @escaping @Sendable (ClientID) -> Void,
            expire: @escaping @Sendable (ClientID) -> Void
        ) throws(CommandFailure) {
            self.directory = directory
            self.configuration = configuration
            self.network = network
            self.logger = logger
            var pools: AddressPools
            do throws(AddressPoolError) {
                pools = try AddressPools(servers: addresses, rest: .seconds(configuration.addressRest))
            } catch {
                throw CommandFailure("\(ServerConfiguration.name): addresses: \(error)")
            }
            let now = LaneClock.now()
            let (stored, damage) = try directory.addresses()
            pools.restore(stored, at: now)
            if let damage {
                logger.error(
                    "cannot read which addresses users had, so all of them rest before other users get them: \(damage)"
                )
            }
            desk = LoginDesk(
                cost: configuration.passwordCost, limits: configuration.failures,
                sessionsPerUser: configuration.sessionsPerUser, addresses: PoolSource(pools: pools, logger: logger),
                logger: logger,
                effects: LoginDesk.Effects(
                    disconnect: disconnect, expire: expire,
                    shutOut: { addresses in
                        network.remove(addresses) { error in
                            if let error { logger.error("a client that is gone cannot be kept out: \(error)") }
                        }
                    }, now: { LaneClock.now() }))
            do throws(TunnelIOError) {
                hashing = try WorkThreads(name: "culvert-login")
                files = try WorkThreads(name: "culvert-files", count: 1)
            } catch {
                throw CommandFailure("\(error)")
            }
            keeper = AddressKeeper(logger: logger) { [desk] revision, isLast in
                desk.changedAddresses(since: revision, isLast: isLast)
            } store: { (file) throws(CommandFailure) in
                try directory.write(file)
            }
            let file = try directory.users()
            desk.use(file)
            keeper.write()
            stamp.withLock { $0 = directory.stamp }
            if file.users.isEmpty {
                logger.notice("there are no users yet: 'culvert credential-server user add' makes one")
            }
        }

        // MARK: - CredentialStore

        /// The number of logins that can be verified at the same time.
        var verifiers: Int { hashing.count }

        func isKnown(_ login: String, from source: IPAddress) -> Bool { desk.isKnown(login, from: source) }

        func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
            let judgement = await hashing.run { [self] in
                readUsersAgain()
                return desk.judge(
                    attempt.session, login: attempt.login, password: attempt.password, from: attempt.source.address)
            }
            switch judgement ?? .unavailable {
            case .accepted(let addresses):
                // A server that is killed from now on must know of them at its next start.
                if !keeper.isStored(desk.borrowed(addresses, of: attempt.login), of: attempt.login) {
                    await writeAddresses()
                } else if isDue() {
                    // Then the user has the same addresses after a crash. Later logins wait for the next regular write.
                    startWrite()
                }
                do throws(TunnelServerError) {
                    try await network.allow(addresses)
                } catch {
                    logger.error("a client cannot be let in: \(error)")
                    desk.ended(attempt.session, "the firewall did not take it")
                    return .refused(Body.Refusal(.unavailable))
                }
                return .accepted(
                    Body.Assignment(
                        addresses: addresses.map { InterfaceAddress(host: $0) },
                        routes: routes(for: addresses),
                        dns: configuration.nameServers.filter { server in
                            addresses.contains { $0.isIPv6 == server.isIPv6 }
                        },
                        mtu: configuration.mtu, keepalive: configuration.keepalive))
            case .wrong: return .refused(Body.Refusal(.credentials))
            case .tooEarly(let seconds):
                return .refused(Body.Refusal(.attempts, message: "too many attempts: try again in \(seconds) s"))
            case .full: return .refused(Body.Refusal(.full))
            case .changed:
                return .refused(Body.Refusal(.unavailable, message: "the user was changed just now: try again"))
            case .unavailable: return .refused(Body.Refusal(.unavailable))
            }
        }

        /// What its addresses have a use for: a route of IPv6 leads nowhere without one.
        private func routes(for addresses: [IPAddress]) -> [IPPrefix] {
            configuration.routes.filter { route in addresses.contains { $0.isIPv6 == route.isIPv6 } }
        }

        func ended(_ session: ClientID, _ reason: EndReason, _: SessionTraffic) async {
            // At the end the firewall goes as a whole.
            desk.ended(session, "\(reason)", isLast: reason == .shutdown)
        }

        // MARK: - What time brings

        /// Reads the users again if they were changed, ends sessions that must end, and starts to write changed addresses to their file.
        /// Must be called every second. It does not wait for the write: a slow disk does not delay the end of access.
        func look() async {
            _ = await hashing.run { [self] in
                readUsersAgain()
                desk.look(lifetime: configuration.sessionLifetime)
            }
            startWrite()
        }

        /// Starts to write the file, unless such a write is under way.
        private func startWrite() {
            let isFirst = isWriting.withLock { isWriting in
                defer { isWriting = true }
                return !isWriting
            }
            guard isFirst else { return }
            Task {
                await writeAddresses()
                isWriting.withLock { $0 = false }
            }
        }

        /// Whether the last login that had the file written is a second ago.
        private func isDue() -> Bool {
            let now = LaneClock.now()
            return lastWrite.withLock { last in
                guard now - last >= LaneClock.nanosecondsPerSecond else { return false }
                last = now
                return true
            }
        }

        /// Writes which addresses rest, after all sessions have ended.
        func close() async { await writeAddresses(isLast: true) }

        private func writeAddresses(isLast: Bool = false) async {
            _ = await files.run { [keeper] in keeper.write(isLast: isLast) }
        }

        /// How many sessions there are.
        var sessionCount: Int { desk.sessionCount }

        private func readUsersAgain() {
            stamp.withLock { stamp in
                let now = directory.stamp
                guard stamp != now else { return }
                // Said once for each state of the file; the users before stay.
                stamp = now
                do throws(CommandFailure) {
                    let file = try directory.users()
                    desk.use(file)
                    logger.notice("users were changed: there are \(file.users.count) now")
                } catch {
                    logger.error("the users are those of before: \(error)")
                }
            }
        }
    }

    /// The server's pools.
    private struct PoolSource: AddressSource {
        var pools: AddressPools
        let logger: Logger

        mutating func keep(_ addresses: [IPAddress]) {
            for address in addresses {
                do throws(AddressPoolError) { try pools.keep([address]) } catch {
                    logger.error("a user's address: \(error)")
                }
            }
        }

        mutating func take(own: [IPAddress], for login: String, at now: Int64) -> [IPAddress]? {
            do throws(AddressPoolError) { return try pools.take(own: own, for: login, at: now) } catch {
                logger.error("\(error)")
                return nil
            }
        }

        mutating func give(back addresses: [IPAddress], of login: String, at now: Int64) {
            pools.give(back: addresses, of: login, at: now)
        }

        func file(at now: Int64, isLast: Bool) -> AddressFile { pools.file(at: now, isLast: isLast) }
    }

#endif
