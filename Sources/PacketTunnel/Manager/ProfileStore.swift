// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A store of profiles.
public protocol ProfileStore: Sendable {
    /// Returns all profiles, and the errors of those that cannot be read: one of them does not hide the others.
    func loadAll() async throws(TunnelError) -> LoadedProfiles

    /// Keeps a profile, instead of the one with its id.
    func save(_ profile: TunnelProfile) async throws(TunnelError)

    /// Keeps a profile that was edited, instead of the one with its id. `before` is the profile that was edited; nil: unknown. A
    /// store can keep newer values of other processes, which the edit did not change.
    func save(_ profile: TunnelProfile, replacing before: TunnelProfile?) async throws(TunnelError)

    /// Forgets a profile; none is fine.
    func remove(_ id: String) async throws(TunnelError)

    /// Removes the private data of profiles that were removed elsewhere.
    /// - Returns: the ids of those profiles.
    func removeOrphans() async throws(TunnelError) -> [String]
}

extension ProfileStore {
    /// Saves the profile: no other process changes profiles of the store.
    public func save(_ profile: TunnelProfile, replacing before: TunnelProfile?) async throws(TunnelError) {
        try await save(profile)
    }

    /// Returns an empty list: no other process removes profiles from the store.
    public func removeOrphans() async throws(TunnelError) -> [String] { [] }
}

/// A profile that exists and that cannot be read now.
public struct UnreadableProfile: Hashable, Sendable, Identifiable {
    /// The profile's id.
    public var id: String
    /// The profile's name, as far as it is known.
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
    /// The errors of the others.
    public var errors: [TunnelError]
    /// The profiles that exist and cannot be read; ``errors`` has an error for each.
    public var unreadable: [UnreadableProfile] = []
    /// The ids of profiles that were removed elsewhere and whose private data is left; ``errors`` has an error for each.
    public var orphans: [String] = []

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

    /// Keeps a profile, instead of the one with its id.
    public func save(_ profile: TunnelProfile) async throws(TunnelError) {
        profiles.withLock { $0[profile.id] = profile }
    }

    /// Forgets a profile; none is fine.
    public func remove(_ id: String) async throws(TunnelError) {
        _ = profiles.withLock { $0.removeValue(forKey: id) }
    }
}
