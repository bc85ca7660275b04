// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Where the secrets of profiles are kept: keys, passwords, tokens. Profiles hold their names only.
public protocol SecretStore: Sendable {
    /// The secret `name` of a profile.
    /// - Throws: `.secretUnavailable` when there is none, or it is not kept safely.
    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes

    /// Keeps a secret, instead of the one before.
    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError)

    /// Forgets a secret; none is fine.
    func remove(_ name: String, of profile: String) async throws(TunnelError)

    /// Forgets all secrets of a profile; none is fine.
    func removeAll(of profile: String) async throws(TunnelError)

    /// The names of a profile's secrets, sorted.
    func names(of profile: String) async throws(TunnelError) -> [String]
}

/// Secrets in memory, for tests and simulators.
public final class MemorySecretStore: SecretStore {
    private let secrets = Mutex<[String: [String: SecretBytes]]>([:])

    /// A store without secrets.
    public init() {}

    /// The secret `name` of a profile.
    public func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        guard let secret = secrets.withLock({ $0[profile]?[name] }) else { throw .missingSecret(name) }
        return secret
    }

    /// Keeps a secret, instead of the one before.
    public func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile, default: [:]][name] = secret }
    }

    /// Forgets a secret; none is fine.
    public func remove(_ name: String, of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile]?[name] = nil }
    }

    /// Forgets all secrets of a profile; none is fine.
    public func removeAll(of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile] = nil }
    }

    /// The names of a profile's secrets, sorted.
    public func names(of profile: String) async throws(TunnelError) -> [String] {
        secrets.withLock { $0[profile]?.keys.sorted() ?? [] }
    }
}
