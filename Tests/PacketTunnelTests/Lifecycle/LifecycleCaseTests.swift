// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnel
import PacketTunnelTesting
import Testing

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

    var hangingCount: Int { memory.platform.hangingCount }

    var hasSettings: Bool { memory.platform.settings != nil }

    var hasLeakGuard: Bool { memory.platform.guardPolicy != nil }
}

@Suite("The table of life-cycle cases")
struct LifecycleCaseTests {
    @Test("The table holds on the memory host", .timeLimit(.minutes(1)), arguments: LifecycleCase.all)
    func memoryHost(_ test: LifecycleCase) async throws {
        try await LifecycleScene<MemoryHostUnderTest>().play(test)
    }

    @Test("Small batches to read into are refused on the memory host", .timeLimit(.minutes(1)))
    func smallBatches() async throws {
        try await LifecycleScene<MemoryHostUnderTest>().readIntoSmallBatches()
    }

    @Test("A running provider can save a secret on the memory host", .timeLimit(.minutes(1)))
    func savedSecrets() async throws {
        try await LifecycleScene<MemoryHostUnderTest>().saveSecret()
    }

    @Test("A provider that starts during a sleep receives it on the memory host", .timeLimit(.minutes(1)))
    func startsAsleep() async throws {
        try await LifecycleScene<MemoryHostUnderTest>().startAsleep()
    }

    @Test("The table has every situation with every event")
    func complete() {
        #expect(
            LifecycleCase.all.count == LifecycleCase.Situation.allCases.count * LifecycleCase.Event.allCases.count)
    }
}
