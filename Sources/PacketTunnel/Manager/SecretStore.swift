// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

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
