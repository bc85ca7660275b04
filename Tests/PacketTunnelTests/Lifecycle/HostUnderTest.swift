// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting

@testable import PacketTunnel

/// A host that the table of life-cycle cases runs on. Each host has a type that conforms, and a suite that runs
/// ``LifecycleCase/all`` with it.
protocol HostUnderTest: Sendable {
    /// A host that runs ``ScriptedProvider``s and measures deadlines on `clock`.
    init(clock: VirtualClock, script: Script, deadlines: TunnelDeadlines) async throws

    /// The host.
    var host: any TunnelHost { get }

    /// Makes a step of the platform go as `behaviour` says from now on.
    func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour)

    /// Lets the platform's steps return that hang.
    func releaseAll()

    /// Whether settings are in force.
    var hasSettings: Bool { get }

    /// The policy of the leak guard that is in place.
    var guardPolicy: LeakPolicy? { get }
}

/// What a platform does for a tunnel.
enum PlatformStep: Sendable {
    case prepare
    case apply
    case tearDown
}

/// ``MemoryHost`` in the table.
struct MemoryHostUnderTest: HostUnderTest {
    let memory: MemoryHost<ScriptedProvider>

    init(clock: VirtualClock, script: Script, deadlines: TunnelDeadlines) {
        memory = MemoryHost(deadlines: deadlines, clock: clock) { ScriptedProvider(script) }
    }

    var host: any TunnelHost { memory }

    func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour) {
        switch step {
        case .prepare: memory.platform.setPrepare(behaviour)
        case .apply: memory.platform.setApply(behaviour)
        case .tearDown: memory.platform.setTearDown(behaviour)
        }
    }

    func releaseAll() { memory.platform.releaseAll() }

    var hasSettings: Bool { memory.platform.settings != nil }

    var guardPolicy: LeakPolicy? { memory.platform.guardPolicy }
}
