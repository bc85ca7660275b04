// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel
package import PacketTunnelTesting

/// A host that the table of life-cycle cases runs on. Each host has a conforming type, and a suite that runs
/// ``LifecycleCase/all`` with it (``LifecycleScene``).
///
/// A ``PlatformScript`` controls its steps. A host with its own ``TunnelPlatform`` wraps it in a ``ScriptedPlatform``;
/// any other host consults a script before each step.
package protocol HostUnderTest: Sendable {
    /// A host that runs ``ScriptedProvider``s and measures deadlines on `clock`.
    init(clock: VirtualClock, script: Script, deadlines: TunnelDeadlines) async throws

    /// The host.
    var host: any TunnelHost { get }

    /// Sets the behaviour of a step of the platform from now on.
    func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour)

    /// Lets the platform's steps that hang return.
    func releaseAll()

    /// The number of the platform's steps that hang now.
    var hangingCount: Int { get }

    /// Whether any setting of a tunnel is in effect.
    var hasSettings: Bool { get }

    /// Whether a leak guard is in place.
    var hasLeakGuard: Bool { get }
}
