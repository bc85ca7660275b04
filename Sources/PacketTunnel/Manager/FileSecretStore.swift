// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Secrets in files that only their owner, usually root, can read: a directory per profile, a file per secret.
///
/// Directories have mode 0700 and files 0600. The store refuses a file that other users could read, or that belongs to
/// another user.
public final class FileSecretStore: SecretStore {
    private let directory: PrivateDirectory<TunnelError>

    /// Creates a store in `path`, an absolute path; a missing folder is created.
    /// - Throws: `.storage`; `.permissionDenied` if other users may enter it.
    public init(path: String) throws(TunnelError) {
        directory = try PrivateDirectory(path: path, access: .ownerOnly)
    }

    /// The secret `name` of a profile.
    public func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        guard let inner = try directory.directory(profile, makingIt: false), var bytes = try inner.read(name) else {
            throw .missingSecret(name)
        }
        defer { wipe(&bytes) }
        return SecretBytes(bytes)
    }

    /// Saves a secret, and replaces the previous one.
    public func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        guard let inner = try directory.directory(profile, makingIt: true) else {
            throw TunnelError(.storage, "the directory of profile '\(profile)' was removed", fix: "try again")
        }
        var bytes = secret.bytes
        defer { wipe(&bytes) }
        try inner.write(bytes, to: name)
    }

    /// Removes a secret, if it exists.
    public func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try directory.directory(profile, makingIt: false)?.remove(name)
    }

    /// Removes all secrets of a profile, if there are any.
    public func removeAll(of profile: String) async throws(TunnelError) {
        try directory.removeDirectory(profile)
    }

    /// The names of a profile's secrets, sorted.
    public func names(of profile: String) async throws(TunnelError) -> [String] {
        try directory.directory(profile, makingIt: false)?.names() ?? []
    }
}

extension TunnelError {
    package static func missingSecret(_ name: String) -> TunnelError {
        TunnelError(.secretUnavailable, "the profile has no secret '\(name)'", fix: "enter it again")
    }
}
