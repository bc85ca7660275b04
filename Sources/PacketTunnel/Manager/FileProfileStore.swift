// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Profiles as JSON files in a directory, one file per profile, named after its ID. The files contain no secrets.
public final class FileProfileStore: ProfileStore {
    private static let suffix = ".json"

    private let directory: PrivateDirectory<TunnelError>

    /// Creates a store in `path`, an absolute path; a missing folder is created.
    /// - Throws: `.storage`; `.permissionDenied` if other users may write to it.
    public init(path: String) throws(TunnelError) {
        directory = try PrivateDirectory(path: path, access: .readableByAll)
    }

    /// Returns all profiles, and the errors of those that cannot be read.
    public func loadAll() async throws(TunnelError) -> LoadedProfiles {
        var loaded = LoadedProfiles(profiles: [])
        for name in try directory.names() where name.hasSuffix(Self.suffix) {
            do throws(TunnelError) {
                if let profile = try load(name) { loaded.profiles.append(profile) }
            } catch {
                loaded.errors.append(error)
            }
        }
        return loaded
    }

    private func load(_ name: String) throws(TunnelError) -> TunnelProfile? {
        guard let bytes = try directory.read(name) else { return nil }
        let profile: TunnelProfile
        do {
            profile = try JSONDecoder().decode(TunnelProfile.self, from: Data(bytes))
        } catch {
            throw TunnelError(
                .storage, "'\(name)' is not a profile: \(error)", fix: "remove it, or set the profile up again")
        }
        guard name == profile.id + Self.suffix else {
            throw TunnelError(.storage, "'\(name)' holds the profile '\(profile.id)'", fix: "rename or remove it")
        }
        let problems = profile.validate()
        guard problems.isEmpty else {
            throw TunnelError(.storage, "'\(name)' is not a valid profile", fix: "correct it", problems: problems)
        }
        return profile
    }

    /// Saves a profile, and replaces the one with the same ID.
    public func save(_ profile: TunnelProfile) async throws(TunnelError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let bytes: [UInt8]
        do {
            bytes = Array(try encoder.encode(profile)) + [UInt8(ascii: "\n")]
        } catch {
            throw TunnelError(.storage, "profile '\(profile.name)' does not encode: \(error)")
        }
        try directory.write(bytes, to: profile.id + Self.suffix)
    }

    /// Removes a profile, if it exists.
    public func remove(_ id: String) async throws(TunnelError) {
        guard TunnelProfile.isID(id) else { throw .noProfile(id) }
        try directory.remove(id + Self.suffix)
    }
}

extension TunnelError {
    package static func noProfile(_ id: String) -> TunnelError {
        TunnelError(.profileNotFound, "there is no profile '\(id)'", fix: "load the profiles again")
    }
}
