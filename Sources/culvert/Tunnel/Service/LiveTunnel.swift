// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import Synchronization

/// Asks a tunnel's service to reread its file or profile, and to apply the changes.
struct ReloadRequest: TunnelMessage {
    struct Reply: Codable, Hashable, Sendable {
        /// The changes that take effect only at the next start, and other warnings.
        var warnings: [String]
    }
    static let name = "culvert.service.reload"
}

/// The tunnel that a process runs, which a reload replaces.
final class LiveTunnel<Configuration: TunnelKindConfiguration>: Sendable {
    /// A function that a reload calls with the running provider.
    typealias Work = @Sendable (Configuration.Provider) async throws(TunnelError) -> Void

    /// The secrets of the tunnel as it was loaded last.
    let secrets: CurrentSecrets
    private let load: LoadedTunnel.Load
    private let state: Mutex<(tunnel: LoadedTunnel, configuration: Configuration)>

    /// - Parameter configuration: the configuration of `tunnel`.
    init(_ tunnel: LoadedTunnel, _ configuration: Configuration, load: @escaping LoadedTunnel.Load) {
        secrets = CurrentSecrets(tunnel.secrets)
        self.load = load
        state = Mutex((tunnel, configuration))
    }

    var tunnel: LoadedTunnel { state.withLock { $0.tunnel } }

    /// The configuration of ``tunnel``, with which a failed tunnel is started again.
    var configuration: Configuration { state.withLock { $0.configuration } }

    /// Applies the tunnel's file or profile again. Peers that are still in it keep their sessions.
    /// - Parameter callProvider: calls a function with the running provider.
    /// - Throws: the error of the new configuration. The tunnel then continues unchanged.
    func reload(
        _ callProvider: (@escaping Work) async throws(TunnelError) -> Void
    ) async throws(TunnelError) -> ReloadRequest.Reply {
        let present = tunnel
        var new: LoadedTunnel
        do throws(CommandProblem) {
            new = try await load()
        } catch {
            throw TunnelError(.configurationInvalid, error.text)
        }
        var warnings = new.warnings
        if new.hooks != present.hooks {
            warnings.append("PreUp, PostUp, PreDown and PostDown take effect at the next start")
        }
        // A reload never relaxes the leak policy: the user must start the tunnel again for that.
        if new.leakPolicy < present.leakPolicy {
            warnings.append(
                "the leak policy stays '\(LeakPolicyName(present.leakPolicy).rawValue)' until the next start")
            new.leakPolicy = present.leakPolicy
        }
        guard let reconfigure = Configuration.reconfigure,
            let configuration = new.kind.configuration as? Configuration
        else {
            throw TunnelError(
                .configurationInvalid,
                "only a WireGuard tunnel of a file or profile can be reloaded: a server configures this one",
                fix: "culvert down \(present.name), and up again")
        }
        let before = secrets.replace(with: new.secrets)
        do throws(TunnelError) {
            try await callProvider { provider throws(TunnelError) in try await reconfigure(provider, configuration) }
        } catch {
            _ = secrets.replace(with: before)
            throw error
        }
        state.withLock { state in
            (state.tunnel.kind, state.tunnel.secrets, state.configuration) = (new.kind, new.secrets, configuration)
        }
        return ReloadRequest.Reply(warnings: warnings)
    }
}

/// Secrets that can be replaced as a whole while they are in use.
final class CurrentSecrets: SecretStore {
    private let store: Mutex<any SecretStore>

    init(_ store: any SecretStore) { self.store = Mutex(store) }

    private var current: any SecretStore { store.withLock { $0 } }

    /// - Returns: the previous secrets.
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
