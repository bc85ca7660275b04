// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A store of profiles.
public protocol ProfileStore: Sendable {
    /// Returns all profiles that can be read, and the errors of the others.
    func loadAll() async throws(TunnelError) -> LoadedProfiles

    /// Saves a profile, and replaces the one with the same ID.
    func save(_ profile: TunnelProfile) async throws(TunnelError)

    /// Saves an edited profile, and replaces the one with the same ID. `before` is the profile before the edit; `nil`
    /// if it is not known. A store can keep newer values that other processes wrote and the edit did not change.
    func save(_ profile: TunnelProfile, replacing before: TunnelProfile?) async throws(TunnelError)

    /// Removes a profile, if it exists.
    func remove(_ id: String) async throws(TunnelError)

    /// Removes the private data of profiles that another program removed.
    /// - Returns: The IDs of those profiles.
    func removeOrphans() async throws(TunnelError) -> [String]
}

extension ProfileStore {
    /// Saves the profile. Correct for stores that no other process changes.
    public func save(_ profile: TunnelProfile, replacing before: TunnelProfile?) async throws(TunnelError) {
        try await save(profile)
    }

    /// Returns an empty list. Correct for stores from which no other process removes profiles.
    public func removeOrphans() async throws(TunnelError) -> [String] { [] }
}

/// A profile that exists but cannot be read now.
public struct UnreadableProfile: Hashable, Sendable, Identifiable {
    /// The profile's id.
    public var id: String
    /// The profile's name, if it is known.
    public var name: String
    /// The error of reading it.
    public var error: TunnelError

    /// A profile that cannot be read.
    public init(id: String, name: String, error: TunnelError) {
        self.id = id
        self.name = name
        self.error = error
    }
}

/// The contents of a ``ProfileStore``.
public struct LoadedProfiles: Hashable, Sendable {
    /// The profiles, in no particular order.
    public var profiles: [TunnelProfile]
    /// The errors of the profiles that cannot be read.
    public var errors: [TunnelError]
    /// The profiles that exist but cannot be read; ``errors`` has an error for each.
    public var unreadable: [UnreadableProfile] = []
    /// The IDs of profiles that another program removed and whose private data remains; ``errors`` has an error for
    /// each.
    public var orphans: [String] = []
    /// The errors of configurations that another library saved and that could not be adopted; ``errors`` contains them too.
    public var adoptionErrors: [TunnelError] = []

    /// Profiles and errors.
    public init(profiles: [TunnelProfile], errors: [TunnelError] = []) {
        self.profiles = profiles
        self.errors = errors
    }
}

/// Profiles in memory, for tests and simulators.
public final class MemoryProfileStore: ProfileStore {
    private let profiles: Mutex<[String: TunnelProfile]>

    /// A store with these profiles.
    public init(_ profiles: [TunnelProfile] = []) {
        self.profiles = Mutex(Dictionary(profiles.map { ($0.id, $0) }) { $1 })
    }

    /// All profiles.
    public func loadAll() async throws(TunnelError) -> LoadedProfiles {
        LoadedProfiles(profiles: profiles.withLock { Array($0.values) })
    }

    /// Saves a profile, and replaces the one with the same ID.
    public func save(_ profile: TunnelProfile) async throws(TunnelError) {
        profiles.withLock { $0[profile.id] = profile }
    }

    /// Removes a profile, if it exists.
    public func remove(_ id: String) async throws(TunnelError) {
        _ = profiles.withLock { $0.removeValue(forKey: id) }
    }
}
