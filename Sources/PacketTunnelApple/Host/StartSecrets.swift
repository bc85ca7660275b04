// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization

/// The secrets in the options of a start, on top of a store, which also stores the secrets that a running provider
/// saves.
final class StartSecrets: SecretStore {
    private struct State {
        /// The number of the start with these secrets.
        var start: UInt64 = 0
        var secrets: [String: SecretBytes] = [:]
    }

    private let next: (any SecretStore)?
    private let state = Mutex(State())

    init(next: (any SecretStore)?) {
        self.next = next
    }

    /// Stores the secrets of a start in memory, and replaces those of an earlier start.
    func hold(_ secrets: [String: SecretBytes], of start: UInt64) {
        state.withLock { $0 = State(start: start, secrets: secrets) }
    }

    /// Removes the secrets of a start and of earlier ones. Secrets of a later start stay.
    func forget(start: UInt64) {
        state.withLock { if $0.start <= start { $0.secrets = [:] } }
    }

    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        if let secret = state.withLock({ $0.secrets[name] }) { return secret }
        guard let next else { throw .missingSecret(name) }
        return try await next.read(name, of: profile)
    }

    func names(of profile: String) async throws(TunnelError) -> [String] {
        let names = state.withLock { Set($0.secrets.keys) }
        return try await names.union(next?.names(of: profile) ?? []).sorted()
    }

    /// Saves a secret in the store, and uses it instead of the one in the start options.
    /// - Throws: `.storage` without a store, because a secret in memory would be lost with the process; or the store's
    ///   error, after which nothing has changed.
    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        guard let next else {
            throw TunnelError(
                .storage, "cannot save the secret '\(name)': the extension has no store for secrets",
                fix: "set 'secrets' in the options of the extension's host")
        }
        try await next.write(secret, name, of: profile)
        state.withLock { if $0.secrets[name] != nil { $0.secrets[name] = secret } }
    }

    func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try await next?.remove(name, of: profile)
        _ = state.withLock { $0.secrets.removeValue(forKey: name) }
    }

    func removeAll(of profile: String) async throws(TunnelError) {
        try await next?.removeAll(of: profile)
        state.withLock { $0.secrets = [:] }
    }
}
