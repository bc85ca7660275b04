// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import TunnelSystem

/// Secrets in the keychain, which app and extension share through an access group.
///
/// A macOS system extension runs as root and has no such keychain. There the secrets are passed with the start
/// (``NetworkExtensionManagerOptions/passesSecrets``).
public final class KeychainSecretStore: SecretStore {
    private let items: KeychainItems

    /// Creates a store.
    ///
    /// - Parameters:
    ///   - service: The service name of the items; the same in app and extension.
    ///   - accessGroup: The keychain access group of both; `nil` for this program only.
    public init(service: String = "culvert.secrets", accessGroup: String? = nil) {
        items = KeychainItems(service: service, accessGroup: accessGroup)
    }

    private static func account(_ name: String, _ profile: String) -> String { "\(profile).\(name)" }

    /// The secret `name` of a profile.
    public func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        guard var bytes = try items.read(Self.account(name, profile)) else { throw .missingSecret(name) }
        defer { wipe(&bytes) }
        return SecretBytes(bytes)
    }

    /// Saves a secret, and replaces the previous one.
    public func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        var bytes = secret.bytes
        defer { wipe(&bytes) }
        try items.write(bytes, Self.account(name, profile), label: "Secret of a tunnel")
    }

    /// Removes a secret, if it exists.
    public func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try items.remove(Self.account(name, profile))
    }

    /// Removes all secrets of a profile, if there are any.
    public func removeAll(of profile: String) async throws(TunnelError) {
        for name in try await names(of: profile) { try items.remove(Self.account(name, profile)) }
    }

    /// The names of a profile's secrets, sorted.
    public func names(of profile: String) async throws(TunnelError) -> [String] {
        let prefix = "\(profile)."
        return try items.accounts().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    }
}
