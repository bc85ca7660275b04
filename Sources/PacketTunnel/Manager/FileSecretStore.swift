// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Secrets in files that only their owner, usually root, can read: a directory for each profile, a file for each secret.
///
/// Directories have mode 0700 and files 0600. A file that other users could read, or that belongs to another user, is
/// refused.
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

    /// Keeps a secret, instead of the one before.
    public func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        guard let inner = try directory.directory(profile, makingIt: true) else {
            throw TunnelError(.storage, "the directory of profile '\(profile)' was removed", fix: "try again")
        }
        var bytes = secret.bytes
        defer { wipe(&bytes) }
        try inner.write(bytes, to: name)
    }

    /// Forgets a secret; none is fine.
    public func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try directory.directory(profile, makingIt: false)?.remove(name)
    }

    /// Forgets all secrets of a profile; none is fine.
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
