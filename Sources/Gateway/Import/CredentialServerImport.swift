// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import NetworkAddresses
import PasswordHashing
import Provisioning

/// Imports a credential server into a gateway, so that the profiles of its clients remain valid.
///
/// Everything is checked before anything is written. The users are written first, in one transaction, followed by the
/// keys and the settings. After an interruption, repeat the import to complete it.
package enum CredentialServerImport {
    /// The result of an import.
    package struct Outcome: Sendable {
        /// The gateway's settings after the import.
        package internal(set) var settings: GatewaySettings
        /// The logins of new users.
        package internal(set) var added: [String] = []
        /// The logins of users that the gateway already had, with the same password and addresses.
        package internal(set) var present: [String] = []
        /// The number of addresses whose cooldown starts, because sessions of the server had them or may have had them.
        package internal(set) var resting = 0
        /// The settings in which the gateway differs from the server, each with the reason.
        package internal(set) var differences: [String] = []
    }

    /// - Throws: `.inUse` while the gateway runs, `.unusable` for values that the gateway cannot have, and `.exists`
    ///   if it has other keys of the login tunnel or another user with the same login. Then nothing is changed.
    package static func run(
        _ server: CredentialServerFolder, into gateway: GatewayDirectory, now: Date = Date(),
        random: RandomSource = RandomSource()
    ) async throws(GatewayDirectoryError) -> Outcome {
        try gateway.lock()
        let keys = try gateway.storedLoginKeys()
        guard keys == nil || keys == server.keys else {
            throw GatewayDirectoryError(
                "the gateway already has other login tunnel keys, which its clients use", kind: .exists,
                fix: "import into a gateway that has never served the login tunnel")
        }
        let before = try gateway.settings()
        let store = try gateway.openStore()
        let outcome: Outcome
        do throws(GatewayDirectoryError) {
            outcome = try await add(server, to: store, before, now: now, random: random)
        } catch {
            try? store.close()
            throw error
        }
        do throws(StoreError) { try store.close() } catch { throw GatewayDirectoryError(error) }
        if keys == nil { try gateway.write(server.keys) }
        try gateway.write(outcome.settings)
        return outcome
    }

    private static func add(
        _ server: CredentialServerFolder, to store: GatewayStore, _ before: GatewaySettings, now: Date,
        random: RandomSource
    ) async throws(GatewayDirectoryError) -> Outcome {
        do {
            var outcome = Outcome(settings: before)
            let (devices, owners) = (try await store.counts(at: now).devices, try await store.loginsWithAddresses())
            // An interrupted import may have added users of this server.
            let hasOthers = !owners.subtracting(server.users.map(\.login)).isEmpty
            outcome.adopt(server.settings, keepingNetwork: devices > 0 || hasOthers)
            if let problem = outcome.settings.problem {
                throw CredentialServerFolder.unusable(
                    "the gateway's settings with those of server.json", "\(problem.field): \(problem.words)")
            }
            try check(server.users, outcome.settings)
            var (new, ids): ([User], [String: UserID]) = ([], [:])
            var random = random
            for user in server.users {
                if let present = try await store.user(login: user.login) {
                    try check(user, against: present)
                    outcome.present.append(user.login)
                    ids[user.login] = present.id
                } else {
                    let made = try user.made(UserID(using: &random), now: now)
                    outcome.added.append(user.login)
                    ids[user.login] = made.id
                    new.append(made)
                }
            }
            // An address gets a cooldown even if its user was removed.
            let resting = server.lastAddresses.mapValues { login in login.flatMap { ids[$0] } }
            let limits = DeviceLimits(
                servers: outcome.settings.addresses,
                restSince: now.addingTimeInterval(-Double(outcome.settings.addressRestSeconds)),
                devicesPerUser: outcome.settings.devicesPerUser, devices: outcome.settings.devices)
            outcome.resting = try await store.add(new, resting: resting, limits, at: now)
            return outcome
        } catch let error as GatewayDirectoryError {
            throw error
        } catch StoreError.exists(.address(let address)) {
            throw CredentialServerFolder.unusable(
                "users.json", "in the gateway, \(address) belongs to a device or another user, or is in cooldown")
        } catch let error as StoreError {
            throw GatewayDirectoryError(error)
        } catch {
            throw GatewayDirectoryError("\(error)")
        }
    }

    /// Checks the users without the gateway's store.
    private static func check(
        _ users: [CredentialServerFolder.ServerUser], _ settings: GatewaySettings
    ) throws(GatewayDirectoryError) {
        var (logins, addresses): (Set<String>, Set<IPAddress>) = ([], [])
        for (index, user) in users.enumerated() {
            // Check the login before an error shows it: a terminal would execute its control characters.
            do throws(ContractError) { try UserDraft(login: user.login).check(.create) } catch {
                throw CredentialServerFolder.unusable("users.json: users[\(index)]", "\(GatewayError(error))")
            }
            func unusable(_ problem: String) -> GatewayDirectoryError {
                CredentialServerFolder.unusable("users.json: user '\(user.login)'", problem)
            }
            do throws(GatewayError) {
                try InputValidation.addresses(user.addresses, in: settings.addresses)
            } catch {
                throw unusable("\(error)")
            }
            guard user.login.utf8.count <= 128 else { throw unusable("the login has more than 128 bytes") }
            guard user.password.isValid else { throw unusable("the password is damaged") }
            guard logins.insert(user.login).inserted else { throw unusable("two users have this login") }
            for address in user.addresses where !addresses.insert(address).inserted {
                throw unusable("another user has \(address) too")
            }
        }
    }

    private static func check(
        _ user: CredentialServerFolder.ServerUser, against present: User
    ) throws(GatewayDirectoryError) {
        let hash = present.password.flatMap(PasswordHash.init)
        guard hash == user.password, Set(present.addresses) == Set(user.addresses) else {
            throw GatewayDirectoryError(
                "the gateway already has a user '\(user.login)', with another password or other addresses",
                kind: .exists, fix: "rename or remove one of them")
        }
    }
}

extension CredentialServerFolder.ServerUser {
    fileprivate func made(_ id: UserID, now: Date) throws(GatewayDirectoryError) -> User {
        guard let stored = StoredPassword(password) else {
            throw GatewayDirectoryError("cannot encode the password of '\(login)'")
        }
        let time = (try? Date(added, strategy: .iso8601)) ?? now
        var user = User(id: id, login: login, password: stored, createdAt: Date(milliseconds: time.milliseconds))
        user.addresses = addresses
        return user
    }
}

extension CredentialServerImport.Outcome {
    /// Adopts the server's settings.
    /// - Parameter keepingNetwork: Whether devices or users' fixed addresses depend on the gateway's network settings,
    ///   which are then kept.
    fileprivate mutating func adopt(_ server: CredentialServerFolder.Settings, keepingNetwork: Bool) {
        var new = settings
        new.addresses = server.addresses
        new.mtu = server.mtu
        new.routes = server.routes
        new.dns = server.nameServers
        new.keepaliveSeconds = server.keepalive
        (new.ipv4, new.ipv6) = (server.ipv4, server.ipv6)
        (new.services, new.answersPings) = (server.services, server.answersPings)
        (new.allowedNetworks, new.otherInterfaces) = (server.allowedNetworks, server.otherInterfaces)
        new.addressRestSeconds = server.addressRest
        new.devices = server.clients
        new.failures = server.failures
        if keepingNetwork {
            let old = settings
            let changes = [
                ("addresses", new.addresses != old.addresses), ("mtu", new.mtu != old.mtu),
                ("routes", new.routes != old.routes), ("dns", new.dns != old.dns),
                ("keepaliveSeconds", new.keepaliveSeconds != old.keepaliveSeconds), ("ipv4", new.ipv4 != old.ipv4),
                ("ipv6", new.ipv6 != old.ipv6), ("services", new.services != old.services),
                ("answersPings", new.answersPings != old.answersPings),
                ("allowedNetworks", new.allowedNetworks != old.allowedNetworks),
                ("otherInterfaces", new.otherInterfaces != old.otherInterfaces),
                ("addressRestSeconds", new.addressRestSeconds != old.addressRestSeconds),
                ("devices", new.devices != old.devices), ("failures", new.failures != old.failures),
            ]
            for (name, differs) in changes where differs {
                differences.append("\(name): the gateway's value is kept, because it has devices or fixed addresses")
            }
            new = old
        }
        new.loginTunnel.isEnabled = true
        new.loginTunnel.port = server.port
        new.loginTunnel.interface = server.interface
        new.loginTunnel.sessionLifetimeSeconds = server.sessionLifetime
        new.loginTunnel.passwordCost = server.passwordCost
        new.loginTunnel.sessionsPerUser = min(server.sessionsPerUser, GatewaySettings.LoginTunnel.mostSessionsPerUser)
        if new.loginTunnel.sessionsPerUser != server.sessionsPerUser {
            differences.append(
                "loginTunnel.sessionsPerUser: \(new.loginTunnel.sessionsPerUser), which is the maximum")
        }
        new.devicesPerUser = max(new.devicesPerUser, new.loginTunnel.sessionsPerUser)
        settings = new
    }
}
