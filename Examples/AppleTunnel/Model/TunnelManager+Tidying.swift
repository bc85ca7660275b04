// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

extension TunnelManager {
    /// Reads the profiles, and removes the private data of those that the user removed in the system's settings. The store removes
    /// nothing while it cannot tell whether they were removed. Profiles that cannot be read are in ``unreadableProfiles``.
    func loadAndTidy() async throws(TunnelError) {
        guard try await !load().isEmpty else { return }
        do throws(TunnelError) {
            _ = try await removeOrphans()
        } catch {
            // It is in the log, and the next load tries again.
        }
    }
}
