// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Synchronization
import WireGuardTunnel

/// Asks a tunnel's service to read its file or profile again, and to take on what has changed.
struct ReloadRequest: TunnelMessage {
    struct Reply: Codable, Hashable, Sendable {
        /// What takes effect at the next start only, and what else the user should know.
        var warnings: [String]
    }
    static let name = "culvert.service.reload"
}

/// The tunnel that a process runs, which a reload replaces.
final class LiveTunnel: Sendable {
    /// Reads the file or profile again.
    typealias Load = @Sendable () async throws(CommandProblem) -> LoadedTunnel

    /// The secrets of the tunnel as it was loaded last.
    let secrets: CurrentSecrets
    private let load: Load
    private let state: Mutex<LoadedTunnel>

    init(_ tunnel: LoadedTunnel, load: @escaping Load) {
        secrets = CurrentSecrets(tunnel.secrets)
        self.load = load
        state = Mutex(tunnel)
    }

    var tunnel: LoadedTunnel { state.withLock { $0 } }

    /// Takes on the tunnel as it is written now. Peers that stay keep their sessions.
    /// - Parameter host: runs the tunnel.
    /// - Throws: what is wrong with it. Then the tunnel goes on as it was.
    func reload(_ host: any TunnelHost) async throws(TunnelError) -> ReloadRequest.Reply {
        let present = tunnel
        let new: LoadedTunnel
        do throws(CommandProblem) {
            new = try await load()
        } catch {
            throw TunnelError(.configurationInvalid, error.text)
        }
        guard case .wireGuard(var configuration) = new.kind, present.wireGuard != nil else {
            throw TunnelError(
                .configurationInvalid,
                "only a WireGuard tunnel of a file or profile can be reloaded: a server decides what this one is",
                fix: "culvert down \(present.name), and up again")
        }
        var warnings = new.warnings
        if new.hooks != present.hooks {
            warnings.append("PreUp, PostUp, PreDown and PostDown take effect at the next start")
        }
        // A policy that holds is taken back by the user alone.
        if configuration.leakPolicy < present.leakPolicy {
            warnings.append(
                "the leak policy stays '\(LeakPolicyName(present.leakPolicy).rawValue)' until the next start")
            configuration.leakPolicy = present.leakPolicy
        }
        let before = secrets.replace(with: new.secrets)
        do throws(MessageError) {
            let client = MessageClient(
                channel: host, timeout: .seconds(60),
                maximumByteCount: MessageContainer.localMaximumByteCount)
            _ = try await client.send(ReconfigureRequest(configuration: configuration))
        } catch {
            _ = secrets.replace(with: before)
            throw Self.problem(error)
        }
        state.withLock { tunnel in
            (tunnel.kind, tunnel.secrets) = (.wireGuard(configuration), new.secrets)
        }
        return ReloadRequest.Reply(warnings: warnings)
    }

    /// The error of a reload whose configuration the provider did not accept.
    static func problem(_ error: MessageError) -> TunnelError {
        if case .handlerFailed(let failure) = error {
            // If the host failed, the file can be correct.
            let code = TunnelError.Code(rawValue: failure.code) ?? .configurationInvalid
            return TunnelError(code, failure.message)
        }
        return TunnelError(
            .notRunning, "the tunnel does not take another configuration now: \(error)", fix: "try again later")
    }
}

/// Secrets that can be replaced as a whole while they are in use.
final class CurrentSecrets: SecretStore {
    private let store: Mutex<any SecretStore>

    init(_ store: any SecretStore) { self.store = Mutex(store) }

    private var current: any SecretStore { store.withLock { $0 } }

    /// - Returns: those before.
    func replace(with new: any SecretStore) -> any SecretStore {
        store.withLock { store in
            defer { store = new }
            return store
        }
    }

    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        try await current.read(name, of: profile)
    }

    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        try await current.write(secret, name, of: profile)
    }

    func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try await current.remove(name, of: profile)
    }

    func removeAll(of profile: String) async throws(TunnelError) { try await current.removeAll(of: profile) }

    func names(of profile: String) async throws(TunnelError) -> [String] { try await current.names(of: profile) }
}
