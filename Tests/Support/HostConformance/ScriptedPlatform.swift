// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
package import TunnelIO

/// A real platform whose steps a script controls. Each step that the script permits is executed.
package final class ScriptedPlatform: TunnelPlatform {
    /// The script of the steps.
    package let script: PlatformScript
    private let platform: any TunnelPlatform

    /// Creates a platform that wraps `platform`.
    package init(_ platform: any TunnelPlatform, script: PlatformScript) {
        self.platform = platform
        self.script = script
    }

    package var socketMark: UInt32? { platform.socketMark }

    package func outsideNameServers() async -> [IPAddress] { await platform.outsideNameServers() }

    package func prepare(_ policy: LeakPolicy) async throws(TunnelError) {
        try await script.play(.prepare)
        // The caller no longer waits, so a late step must not leave changes behind.
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        try await platform.prepare(policy)
    }

    package func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
        try await script.play(.apply)
        if Task.isCancelled { throw TunnelError(.closed, "the task was cancelled") }
        return try await platform.apply(settings)
    }

    package func tearDown(leavingBlocked: Bool) async {
        do throws(TunnelError) {
            try await script.play(.tearDown)
        } catch {
            // A tear-down cannot fail.
        }
        await platform.tearDown(leavingBlocked: leavingBlocked)
    }
}
