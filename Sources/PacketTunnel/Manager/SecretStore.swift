// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A store of the secrets of profiles: keys, passwords, tokens. Profiles contain only the names of their secrets.
public protocol SecretStore: Sendable {
    /// Returns the secret `name` of a profile.
    /// - Throws: `.secretUnavailable` if the secret does not exist or is not stored safely.
    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes

    /// Saves a secret, and replaces the previous one.
    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError)

    /// Removes a secret, if it exists.
    func remove(_ name: String, of profile: String) async throws(TunnelError)

    /// Removes all secrets of a profile, if there are any.
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

    /// Saves a secret, and replaces the previous one.
    public func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile, default: [:]][name] = secret }
    }

    /// Removes a secret, if it exists.
    public func remove(_ name: String, of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile]?[name] = nil }
    }

    /// Removes all secrets of a profile, if there are any.
    public func removeAll(of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[profile] = nil }
    }

    /// The names of a profile's secrets, sorted.
    public func names(of profile: String) async throws(TunnelError) -> [String] {
        secrets.withLock { $0[profile]?.keys.sorted() ?? [] }
    }
}
