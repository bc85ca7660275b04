// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

extension TunnelManager {
    /// Reads the profiles, and removes the private data of those that the user removed in the system's settings. The store
    /// removes nothing while it cannot tell whether they were removed. Profiles that cannot be read are in
    /// ``unreadableProfiles``.
    /// - Throws: The error of the load, or of a configuration that could not be adopted: a new profile would be a second entry.
    func loadAndTidy() async throws(TunnelError) {
        guard try await !load().isEmpty else { return }
        let adoptionError = adoptionErrors.first
        do throws(TunnelError) {
            _ = try await removeOrphans()
        } catch {
            // It is in the log, and the next load tries again.
        }
        if let adoptionError { throw adoptionError }
    }
}
