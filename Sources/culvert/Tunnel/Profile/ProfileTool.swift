// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

/// Implements `culvert profile`.
struct ProfileTool {
    var folder: ProfileFolder
    var console: Console
    var runtime = RuntimeDirectory()

    /// Adds a profile from a wg-quick file.
    /// - Parameter adjust: applies the options that the file does not contain.
    func add(
        _ file: CheckedFile, path: String, name: String?, json: Bool, users: [String] = [],
        adjust: (inout WireGuardTunnelConfiguration) -> Void = { _ in }
    ) async throws(CommandProblem) {
        guard let name = name ?? TunnelName.of(file: path) else {
            throw CommandProblem(
                ExitStatus.usage, "'\(path)' does not name a profile\n  fix: name it with --name, such as --name wg0")
        }
        guard TunnelName.isValid(name) else { throw TunnelName.badName(name) }
        let parts = try WgQuickParts(file)
        var configuration = parts.imported.configuration
        configuration.allowsLocalNetwork = true
        adjust(&configuration)
        try TunnelKind.wireGuard(configuration).check(path)
        var profile = TunnelProfile(
            name: name, provider: ProfileFolder.provider,
            serverAddress: configuration.peers.first?.endpoint?.description ?? "",
            configuration: try problem { () throws(TunnelError) in try JSONValue(encoding: configuration) })
        profile.leakPolicy = configuration.leakPolicy
        _ = try SystemUsers.numbers(users)
        profile.permittedUsers = users
        let (manager, _) = try await loaded()
        do throws(TunnelError) {
            try await manager.create(profile, secrets: parts.imported.secrets)
        } catch {
            throw CommandProblem(error)
        }
        for warning in parts.warnings { console.problem("warning: \(warning)") }
        if !parts.imported.ignoredKeys.isEmpty {
            let keys = parts.imported.ignoredKeys.joined(separator: ", ")
            console.problem(
                "warning: a profile cannot contain \(keys), so they were left out; 'culvert up \(path)' applies them")
        }
        console.line(json ? Self.json(profile).text : "added profile '\(name)'; start it with 'culvert up \(name)'")
    }

    /// Lists all profiles.
    func list(json: Bool) async throws(CommandProblem) {
        var profiles: [TunnelProfile] = []
        var errors: [TunnelError] = []
        // Reading must not create the folder.
        if folder.exists {
            let manager: TunnelManager
            (manager, errors) = try await loaded()
            profiles = await manager.profiles
        }
        for error in errors { console.problem("warning: \(error)") }
        if json {
            let document: JSON = ["profiles": .array(profiles.map(Self.json))]
            console.line(document.text)
        } else if profiles.isEmpty {
            console.line("no profiles in \(folder.path)")
        } else {
            var table = TextTable(["NAME", "SERVER", "LEAK POLICY"])
            for profile in profiles {
                table.add([
                    profile.name, profile.serverAddress.isEmpty ? "-" : profile.serverAddress,
                    LeakPolicyName(profile.leakPolicy).rawValue,
                ])
            }
            for line in table.lines { console.line(line) }
        }
    }

    /// Shows a profile: WireGuard's as a wg-quick file.
    func show(_ name: String, showsSecrets: Bool, json: Bool) async throws(CommandProblem) {
        let (profile, _) = try await named(name)
        let kind: TunnelKind
        var secrets: [String: String] = [:]
        do throws(TunnelError) {
            kind = try TunnelKind(profile)
            if showsSecrets {
                let store = try folder.secrets()
                for name in try await store.names(of: profile.id) {
                    let secret = try await store.read(name, of: profile.id)
                    // A password is text of any length.
                    let isText = if case .login(let login) = kind { login.passwordName == name } else { false }
                    secrets[name] = isText ? String(decoding: secret.bytes, as: UTF8.self) : Self.text(secret)
                }
            }
        } catch {
            throw CommandProblem(error)
        }
        if showsSecrets, console.outputIsWorldAccessible {
            console.problem("warning: every user of this machine can read the file that the keys are written to")
        }
        if json {
            guard case .object(var members) = Self.json(profile) else { return }
            let value =
                switch kind {
                case .wireGuard(let configuration): Self.json(configuration, secrets)
                case .login(let configuration): Self.json(configuration, secrets)
                case .enrolled(let configuration): Self.json(configuration)
                }
            members.append(JSON.Member(name: "configuration", value: value))
            console.line(JSON.object(members).text)
        } else {
            let lines =
                switch kind {
                case .wireGuard(let configuration): try Self.lines(configuration, secrets)
                case .login(let configuration): Self.lines(configuration, secrets)
                case .enrolled(let configuration): Self.lines(configuration)
                }
            for line in lines { console.line(line) }
        }
    }

    /// Removes a profile and its secrets; its tunnel is stopped before.
    func remove(_ name: String) async throws(CommandProblem) {
        let (profile, manager) = try await named(name)
        let channel = UnixTunnelChannel(path: runtime.socket(profile.name))
        if await channel.refresh().status.isActive {
            let running: String?
            do throws(TunnelError) {
                running = try await Self.profile(of: channel)
            } catch {
                throw CommandProblem(error)
            }
            if running == profile.name {
                _ = try await TunnelDown.run(profile.name, runtime, reason: .configurationRemoved)
            }
        }
        do throws(TunnelError) { try await manager.remove(profile.id) } catch { throw CommandProblem(error) }
        console.line("removed profile '\(name)'")
    }

    /// Returns the name of the profile that a running tunnel was started from; `nil` if it was started from a file.
    private static func profile(of channel: UnixTunnelChannel) async throws(TunnelError) -> String? {
        do throws(MessageError) {
            return try await channel.messages.send(ServiceReportRequest()).profile
        } catch {
            throw TunnelError(.channelFailed, "the running tunnel does not report its configuration: \(error)")
        }
    }

    // MARK: - Help

    func loaded() async throws(CommandProblem) -> (manager: TunnelManager, errors: [TunnelError]) {
        do throws(TunnelError) {
            return try await folder.manager()
        } catch {
            throw CommandProblem(error)
        }
    }

    private func problem<Result>(_ body: () throws(TunnelError) -> Result) throws(CommandProblem) -> Result {
        do throws(TunnelError) { return try body() } catch { throw CommandProblem(error) }
    }

    private func named(
        _ name: String
    ) async throws(CommandProblem) -> (profile: TunnelProfile, manager: TunnelManager) {
        let missing = CommandProblem(
            ExitStatus.notFound, "there is no profile '\(name)' in \(folder.path)\n  fix: see 'culvert profile list'")
        guard folder.exists else { throw missing }
        let (manager, _) = try await loaded()
        guard let profile = await manager.profiles.first(where: { $0.name == name }) else { throw missing }
        return (profile, manager)
    }

    private static func text(_ secret: SecretBytes) -> String {
        // A key is stored as bytes, or as the text that a person wrote.
        if let key = PrivateKey(bytes: secret.bytes) { return key.exportedBase64 }
        return String(decoding: secret.bytes.filter { $0 > 32 }, as: UTF8.self)
    }

    /// A profile without its configuration, and without secrets.
    static func json(_ profile: TunnelProfile) -> JSON {
        [
            "id": .string(profile.id), "name": .string(profile.name), "provider": .string(profile.provider),
            "server": .string(profile.serverAddress), "enabled": .bool(profile.isEnabled),
            "leakPolicy": .string(LeakPolicyName(profile.leakPolicy).rawValue),
            "permittedUsers": .array(profile.permittedUsers.map { .string($0) }),
        ]
    }

    private static func json(_ configuration: WireGuardTunnelConfiguration, _ secrets: [String: String]) -> JSON {
        func secret(_ name: String?) -> JSON { name.flatMap { secrets[$0] }.map { .string($0) } ?? .null }
        let peers = configuration.peers.map { peer -> JSON in
            [
                "publicKey": .string(peer.publicKey.base64),
                "presharedKey": secret(configuration.presharedKeyNames[peer.publicKey]),
                "endpoint": peer.endpoint.map { .string($0.description) } ?? .null,
                "allowedIPs": .array(peer.allowedIPs.map { .string($0.description) }),
                "persistentKeepalive": .integer(peer.persistentKeepalive ?? 0),
            ]
        }
        return [
            "privateKey": secret(configuration.privateKeyName),
            "addresses": .array(configuration.addresses.map { .string($0.description) }),
            "dns": .array((configuration.dns?.servers ?? []).map { .string($0.description) }),
            "searchDomains": .array((configuration.dns?.searchDomains ?? []).map { .string($0) }),
            "mtu": configuration.mtu.map { .integer($0) } ?? .null,
            "listenPort": configuration.listenPort.map { .integer($0) } ?? .null,
            "fwMark": configuration.fwMark.map { .integer($0) } ?? .null,
            "table": configuration.makesRoutes ? configuration.routeTable.map { .integer($0) } ?? "auto" : "off",
            "allowsLocalNetwork": .bool(configuration.allowsLocalNetwork),
            "allowedNetworks": .array(configuration.allowedNetworks.map { .string($0.description) }),
            "connectivity": configuration.connectivity.json,
            "peers": .array(peers),
        ]
    }

    /// The text in place of a secret that is not shown.
    static let hiddenSecret = "(hidden)"

    /// A configuration in the form of wg-quick(8).
    private static func lines(
        _ configuration: WireGuardTunnelConfiguration, _ secrets: [String: String]
    ) throws(CommandProblem) -> [String] {
        var tunnel = configuration.tunnel
        // A profile states the absence of keepalives, which a file leaves out.
        for index in tunnel.peers.indices where tunnel.peers[index].persistentKeepalive == 0 {
            tunnel.peers[index].persistentKeepalive = nil
        }
        do throws(UnwritableConfiguration) {
            let text = try tunnel.wgQuickText(privateKey: secrets[configuration.privateKeyName] ?? hiddenSecret) {
                peer in
                configuration.presharedKeyNames[peer.publicKey].map { secrets[$0] ?? hiddenSecret }
            }
            return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
        } catch {
            throw CommandProblem(ExitStatus.failure, "\(error)\n  fix: show the profile with --json")
        }
    }
}
