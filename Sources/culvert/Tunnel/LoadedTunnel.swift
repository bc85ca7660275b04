// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import WireGuardCore
import WireGuardTunnel

/// The commands of a wg-quick file, with the interface's name in place of `%i`.
struct Hooks: Equatable, Sendable {
    var preUp: [String] = []
    var postUp: [String] = []
    var preDown: [String] = []
    var postDown: [String] = []

    /// All of them.
    var all: [String] { preUp + postUp + preDown + postDown }

    var isEmpty: Bool { preUp.isEmpty && postUp.isEmpty && preDown.isEmpty && postDown.isEmpty }

    init() {}

    init(_ interface: InterfaceConfiguration, name: String) {
        func named(_ commands: [String]) -> [String] { commands.map { $0.replacing("%i", with: name) } }
        preUp = named(interface.preUp)
        postUp = named(interface.postUp)
        preDown = named(interface.preDown)
        postDown = named(interface.postDown)
    }
}

/// A tunnel as a file or a profile describes it, ready to be started.
struct LoadedTunnel: Sendable {
    /// Reads the file or profile again.
    typealias Load = @Sendable () async throws(CommandProblem) -> LoadedTunnel

    /// The name of the tunnel and of its interface.
    var name: String
    /// The source, for people: a file's path, or a profile's name.
    var source: String
    /// The profile's name; `nil` for a file.
    var profile: String?
    var kind: TunnelKind
    /// The store of its secrets, which are stored under ``profileID``.
    var secrets: any SecretStore
    var profileID: String
    var hooks = Hooks()
    /// The longest wait for a handshake after `PostUp`, if `PostUp` sets the private key; `nil` for no wait then.
    var proofAfterHooks: Duration?
    /// The users besides root who may see its status and stop it.
    var permittedUsers: [String] = []
    /// Warnings for the user.
    var warnings: [String] = []

    /// Returns the public key of this end, or `nil` if the private key cannot be read.
    func publicKey() async -> String? {
        guard let name = wireGuard?.privateKeyName, let secret = try? await secrets.read(name, of: profileID),
            let key = PrivateKey(stored: secret.bytes)
        else { return nil }
        return Identity(key).publicKey.base64
    }
}

/// Loads the tunnel for `up`.
struct TunnelLoader {
    /// The folder that wg-quick(8) searches for files.
    var wireGuardFolder = "/etc/wireguard"
    var profiles: ProfileFolder
    /// The interface's name, if the user gave one.
    var interface: String?
    /// Reads a file.
    var read: @Sendable (String) -> CheckedFile = { CheckedFile(path: $0, isRegular: true) }

    /// Loads the tunnel that `argument` names: by the path of a file, else by the name of a profile, else by the name
    /// of a file `/etc/wireguard/NAME.conf`.
    func load(_ argument: String) async throws(CommandProblem) -> LoadedTunnel {
        if TunnelName.isFile(argument) { return try file(argument) }
        if let profile = try await profiles.find(argument) { return try await self.profile(profile) }
        let path = "\(wireGuardFolder)/\(argument).conf"
        guard unsafe access(path, F_OK) == 0 || errno != ENOENT else {
            throw CommandProblem(
                ExitStatus.notFound,
                "there is neither a profile '\(argument)' in \(profiles.path) nor a file \(path)\n"
                    + "  fix: name a file with its path, or see 'culvert profile list'")
        }
        return try file(path)
    }

    // MARK: - Files

    private func file(_ path: String) throws(CommandProblem) -> LoadedTunnel {
        guard let name = interface ?? TunnelName.of(file: path) else { throw TunnelName.badFile(path) }
        return try load(read(path), path: Self.absolute(path), name: name)
    }

    /// Loads the tunnel of a file that was already read.
    func load(_ file: CheckedFile, path: String, name: String) throws(CommandProblem) -> LoadedTunnel {
        guard TunnelName.isValid(name) else { throw TunnelName.badName(name) }
        let parts = try WgQuickParts(file, runsHooks: true)
        let hooks = Hooks(parts.imported.interface, name: name)
        if !hooks.isEmpty { try Self.checkTrust(file, path) }
        var configuration = parts.imported.configuration
        // Networks that are attached directly stay reachable, by their more specific routes.
        configuration.allowsLocalNetwork = true
        var tunnel = LoadedTunnel(
            name: name, source: path, kind: .wireGuard(configuration),
            secrets: FixedSecrets(parts.imported.secrets), profileID: "file", hooks: hooks, warnings: parts.warnings)
        if parts.imported.interface.saveConfig {
            tunnel.warnings.append("SaveConfig has no effect: the file is not changed")
        }
        return tunnel
    }

    /// Commands run as root, so no other user may write them.
    private static func checkTrust(_ file: CheckedFile, _ path: String) throws(CommandProblem) {
        let isOwned = file.owner == 0 || file.owner == geteuid()
        guard isOwned, !file.isWritableByOthers else {
            throw CommandProblem(
                ExitStatus.notPermitted,
                "\(path) contains commands (such as PostUp), and users other than root can change it\n"
                    + "  fix: chown root \(path); chmod 600 \(path)")
        }
    }

    static func absolute(_ path: String) -> String {
        guard let resolved = unsafe realpath(path, nil) else { return path }
        defer { unsafe free(resolved) }
        return unsafe String(cString: resolved)
    }

    // MARK: - Profiles

    private func profile(_ profile: TunnelProfile) async throws(CommandProblem) -> LoadedTunnel {
        let name = interface ?? profile.name
        guard TunnelName.isValid(name) else {
            throw CommandProblem(
                ExitStatus.usage,
                "the profile's name '\(name)' cannot be an interface's\n  fix: name one with --interface")
        }
        do throws(TunnelError) {
            let kind = try TunnelKind(profile)
            guard profile.isEnabled else {
                throw TunnelError(.profileDisabled, "the profile '\(profile.name)' is disabled", fix: "enable it")
            }
            var tunnel = LoadedTunnel(
                name: name, source: "profile \(profile.name)", profile: profile.name,
                kind: kind, secrets: try profiles.secrets(), profileID: profile.id)
            tunnel.leakPolicy = max(tunnel.leakPolicy, profile.leakPolicy)
            tunnel.permittedUsers = profile.permittedUsers
            return tunnel
        } catch {
            throw CommandProblem(error)
        }
    }
}

/// A wg-quick file that was read and can be used.
struct WgQuickParts {
    var imported: WgQuickImport
    var warnings: [String]

    /// - Throws: if it cannot be read, or has mistakes, all of which are in the error.
    /// - Parameter runsHooks: whether the file's commands are run; `PostUp` may provide the private key.
    init(
        _ file: CheckedFile, tables: RoutingTableNames = RoutingTableNames(), runsHooks: Bool = false
    ) throws(CommandProblem) {
        guard let bytes = file.bytes else {
            throw CommandProblem(
                file.isMissing ? ExitStatus.notFound : file.isForbidden ? ExitStatus.notPermitted : ExitStatus.usage,
                "\(file.name): \(file.failure)" + (file.isForbidden ? "\n  fix: run as root" : ""))
        }
        do throws(ConfigurationErrors) {
            imported = try WireGuardTunnelConfiguration.split(wgQuick: bytes, name: file.name, runsHooks: runsHooks)
        } catch {
            let lines = error.errors.map { ConfigChecker.Problem($0).description(in: file.name) }
            throw CommandProblem(ExitStatus.usage, "\(file.name) cannot be used\n" + lines.joined(separator: "\n"))
        }
        if case .named(let name) = imported.interface.table {
            guard let number = tables.number(name) else {
                throw CommandProblem(
                    ExitStatus.usage,
                    "\(file.name): there is no routing table '\(name)' in /etc/iproute2/rt_tables\n"
                        + "  fix: write its number, or give it a name there")
            }
            imported.configuration.routeTable = number
            imported.ignoredKeys.removeAll { $0 == "Table" }
        }
        warnings = imported.warnings.map { "line \($0.line): \($0.reason)" }
        if file.isWorldReadable, !imported.secrets.isEmpty {
            warnings.append("every user of this machine can read \(file.name), which holds a secret key: chmod 600 it")
        }
    }
}

/// Secrets that were read from a file.
struct FixedSecrets: SecretStore {
    private let secrets: [String: SecretBytes]

    init(_ secrets: [String: SecretBytes]) { self.secrets = secrets }

    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        guard let secret = secrets[name] else {
            throw TunnelError(.secretUnavailable, "the file has no '\(name)'", fix: "add it")
        }
        return secret
    }

    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) { throw Self.fixed }
    func remove(_ name: String, of profile: String) async throws(TunnelError) { throw Self.fixed }
    func removeAll(of profile: String) async throws(TunnelError) { throw Self.fixed }
    func names(of profile: String) async throws(TunnelError) -> [String] { secrets.keys.sorted() }

    private static let fixed = TunnelError(.storage, "secrets of a file do not change")
}
