// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import TunnelSystem

// The calls that packet tunnels and app proxies share.
extension NETunnelProvider {
    static let cancelled = TunnelError(.closed, "the task was cancelled")

    /// Applies settings. Returns when the system has completed or the task is cancelled, because the system may never
    /// complete.
    func apply(_ settings: NETunnelNetworkSettings) async throws(TunnelError) {
        let done = OneShot<TunnelError?>()
        setTunnelNetworkSettings(settings) { error in
            done.finish(error.map { TunnelError($0, fallback: .settingsFailed) })
        }
        let error = await withTaskCancellationHandler {
            await done.value
        } onCancel: {
            done.finish(Self.cancelled)
        }
        if let error { throw error }
    }
}
