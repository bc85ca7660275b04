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

    /// The file of users as the server's store: each login is judged by a ``LoginDesk``, on a thread of its own since that hashes,
    /// and is let through the firewall before its client hears of it.
    final class FileCredentialStore: CredentialStore {
        private let directory: ServerDirectory
        private let configuration: ServerConfiguration
        private let network: ServerNetwork
        private let logger: Logger
        private let desk: LoginDesk<ClientID>
        private let hashing: EventLoop
        /// The file of users as it was read last; used on the hashing thread only, where one change is read once.
        private let stamp = Mutex<ServerDirectory.Stamp?>(nil)

        /// - Parameters:
        ///   - addresses: the server's own addresses that are in force.
        ///   - disconnect: ends a session.
        init(
            _ directory: ServerDirectory, _ configuration: ServerConfiguration, network: ServerNetwork,
            addresses: [InterfaceAddress], logger: Logger, disconnect: @escaping @Sendable (ClientID) -> Void
        ) throws(CommandFailure) {
            self.directory = directory
            self.configuration = configuration
            self.network = network
            self.logger = logger
            let pools: AddressPools
            do throws(AddressPoolError) {
                pools = try AddressPools(servers: addresses, rest: .seconds(configuration.addressRest))
            } catch {
                throw CommandFailure("\(ServerConfiguration.name): addresses: \(error)")
            }
            desk = LoginDesk(
                cost: configuration.passwordCost, limits: configuration.failures,
                sessionsPerUser: configuration.sessionsPerUser, addresses: PoolSource(pools: pools, logger: logger),
                logger: logger,
                effects: LoginDesk.Effects(
                    disconnect: disconnect,
                    shutOut: { addresses in
                        network.remove(addresses) { error in
                            if let error { logger.error("a client that is gone cannot be kept out: \(error)") }
                        }
                    }, now: { LaneClock.now() }))
            do throws(TunnelIOError) {
                hashing = try EventLoop()
                try hashing.startThread(name: "culvert-login")
            } catch {
                throw CommandFailure("\(error)")
            }
            let file = try directory.users()
            desk.use(file)
            stamp.withLock { $0 = directory.stamp }
            if file.users.isEmpty {
                logger.notice("there are no users yet: 'culvert credential-server user add' makes one")
            }
        }

        deinit { hashing.stop() }

        // MARK: - CredentialStore

        func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
            let judgement: LoginDesk<ClientID>.Judgement = await withCheckedContinuation { continuation in
                let isTaken = hashing.perform { [self] in
                    readUsersAgain()
                    continuation.resume(
                        returning: desk.judge(
                            attempt.session, login: attempt.login, password: attempt.password,
                            from: attempt.source.address))
                }
                if !isTaken { continuation.resume(returning: .unavailable) }
            }
            switch judgement {
            case .accepted(let addresses):
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
                return .refused(Body.Refusal(.attempts, message: "too many failures: try again in \(seconds) s"))
            case .full: return .refused(Body.Refusal(.full))
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

        /// Looks whether users were added or removed, and ends sessions that are to be over. To be called every second.
        func look() async {
            await withCheckedContinuation { continuation in
                let isTaken = hashing.perform { [self] in
                    readUsersAgain()
                    desk.look(lifetime: configuration.sessionLifetime)
                    continuation.resume()
                }
                if !isTaken { continuation.resume() }
            }
        }

        /// How many sessions there are.
        var sessionCount: Int { desk.sessionCount }

        private func readUsersAgain() {
            let now = directory.stamp
            guard stamp.withLock({ $0 != now }) else { return }
            do throws(CommandFailure) {
                let file = try directory.users()
                stamp.withLock { $0 = now }
                desk.use(file)
                logger.notice("users were changed: there are \(file.users.count) now")
            } catch {
                // Said once for each state of the file; the users before stay.
                stamp.withLock { $0 = now }
                logger.error("the users are those of before: \(error)")
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
    }
#endif
