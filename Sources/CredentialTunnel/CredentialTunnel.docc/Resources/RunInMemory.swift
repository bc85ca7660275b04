// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// Starts and stops a tunnel in this process, and returns its status after each.
func runInMemory() async throws(TunnelError) -> [TunnelStatus] {
    let host = MemoryHost<EmptyTunnel>()
    try await host.start(EmptyTunnel.Configuration())
    let started = host.status.status
    await host.stop(.userInitiated)
    return [started, host.status.status]
}
