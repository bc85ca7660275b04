// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import TunnelSystem
import WireGuardCore

extension ProfileTool {
    /// Adds a profile with a login, or changes the one of this name.
    /// - Parameter password: returns the password; its argument is whether the profile is new. `nil` keeps the existing
    ///   password.
    func addLogin(
        _ change: LoginChange, password: (_ isNew: Bool) throws(CommandProblem) -> SecretBytes?
    ) async throws(CommandProblem) {
        guard TunnelName.isValid(change.name) else { throw TunnelName.badName(change.name) }
        let (manager, _) = try await loaded()
        let old = await manager.profiles.first { $0.name == change.name }
        var configuration = try configuration(change, old)
        change.adjust(&configuration)
        let kind = TunnelKind.login(configuration)
        try kind.check("the profile '\(change.name)'")
        var secrets: [String: SecretBytes] = [:]
        if let path = change.presharedKeyFile {
            let bytes = try LoginSecrets.bytes(CheckedFile(path: path))
            guard PresharedKey(stored: bytes) != nil else {
                throw CommandProblem(
                    ExitStatus.usage, "\(path) contains no pre-shared key\n  fix: write 44 characters of base64 into it"
                )
            }
            secrets[configuration.presharedKeyName] = SecretBytes(bytes)
        } else if old == nil {
            throw CommandProblem(
                ExitStatus.usage, "a new profile needs the server's pre-shared key\n  fix: use --preshared-key-file")
        }
        if let password = try password(old == nil) { secrets[configuration.passwordName] = password }
        do throws(TunnelError) {
            var profile =
                old
                ?? TunnelProfile(
                    name: change.name, provider: kind.provider, serverAddress: configuration.server)
            profile.serverAddress = configuration.server
            profile.configuration = try kind.json
            profile.leakPolicy = configuration.leakPolicy
            if old == nil {
                try await manager.create(profile, secrets: secrets)
            } else {
                try await manager.update(profile, secrets: secrets.mapValues { $0 })
            }
            let done = old == nil ? "added" : "changed"
            console.line(
                change.json
                    ? Self.json(profile).text
                    : "\(done) profile '\(change.name)'; start it with 'culvert up \(change.name)'")
        } catch {
            throw CommandProblem(error)
        }
    }

    /// The existing configuration with the given options.
    private func configuration(
        _ change: LoginChange, _ old: TunnelProfile?
    ) throws(CommandProblem) -> CredentialTunnelConfiguration {
        if let old {
            let kind: TunnelKind
            do throws(TunnelError) { kind = try TunnelKind(old) } catch { throw CommandProblem(error) }
            guard case .login(var configuration) = kind else {
                throw CommandProblem(
                    ExitStatus.usage,
                    "the profile '\(old.name)' is for WireGuard\n  fix: use another name, or remove it first")
            }
            configuration.server = change.server ?? configuration.server
            configuration.serverKey = change.serverKey ?? configuration.serverKey
            configuration.login = change.login ?? configuration.login
            return configuration
        }
        guard let server = change.server, let serverKey = change.serverKey, let login = change.login else {
            throw CommandProblem(
                ExitStatus.usage,
                "a new profile needs the server, its key and a login\n  fix: use --server, --server-key and --login")
        }
        return CredentialTunnelConfiguration(
            server: server, serverKey: serverKey, login: login, allowsLocalNetwork: true)
    }

    /// A login as lines, and as JSON.
    static func lines(_ configuration: CredentialTunnelConfiguration, _ secrets: [String: String]) -> [String] {
        var lines = [
            "Server = \(configuration.server)", "ServerKey = \(configuration.serverKey)",
            "Login = \(configuration.login)",
            "Password = \(secrets[configuration.passwordName] ?? hiddenSecret)",
            "PresharedKey = \(secrets[configuration.presharedKeyName] ?? hiddenSecret)",
        ]
        if let mtu = configuration.maximumMTU { lines.append("MTU = at most \(mtu)") }
        if !configuration.allowedNetworks.isEmpty {
            let networks = configuration.allowedNetworks.map(\.description)
            lines.append("AllowedNetworks = \(networks.joined(separator: ", "))")
        }
        return lines
    }

    static func json(_ configuration: CredentialTunnelConfiguration, _ secrets: [String: String]) -> JSON {
        [
            "server": .string(configuration.server), "serverKey": .string(configuration.serverKey),
            "login": .string(configuration.login),
            "password": secrets[configuration.passwordName].map { .string($0) } ?? .null,
            "presharedKey": secrets[configuration.presharedKeyName].map { .string($0) } ?? .null,
            "allowsLocalNetwork": .bool(configuration.allowsLocalNetwork),
            "allowedNetworks": .array(configuration.allowedNetworks.map { .string($0.description) }),
            "mtu": configuration.maximumMTU.map { .integer($0) } ?? .null,
            "connectivity": configuration.connectivity.json,
        ]
    }
}
