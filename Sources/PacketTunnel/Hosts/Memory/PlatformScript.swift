// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// The steps of a platform (``TunnelPlatform``).
package enum PlatformStep: Hashable, Sendable, CaseIterable {
    case prepare
    case apply
    case tearDown
}

/// The behaviour of each of a platform's steps, under the control of a test.
package final class PlatformScript: Sendable {
    private struct State {
        var behaviours: [PlatformStep: MemoryPlatform.Behaviour] = [:]
        var hanging: [OneShot<Void>] = []
    }

    private let clock: any Clock<Duration>
    private let state = Mutex(State())

    /// A script by which every step succeeds.
    package init(clock: any Clock<Duration>) {
        self.clock = clock
    }

    /// Sets the behaviour of a step.
    package func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour) {
        state.withLock { $0.behaviours[step] = behaviour }
    }

    /// Lets every step that hangs return.
    package func releaseAll() {
        let hanging = state.withLock { state in
            defer { state.hanging = [] }
            return state.hanging
        }
        for step in hanging { step.finish(()) }
    }

    /// The number of steps that hang now.
    package var hangingCount: Int { state.withLock { $0.hanging.count } }

    /// Behaves as the script specifies for the step: returns, throws or hangs.
    package func play(_ step: PlatformStep) async throws(TunnelError) {
        // Read the behaviour and register under one lock, so that no release happens in between.
        let (behaviour, hanging) = state.withLock { state -> (MemoryPlatform.Behaviour, OneShot<Void>) in
            let (behaviour, hanging) = (state.behaviours[step] ?? .succeed, OneShot<Void>())
            if behaviour.hangs { state.hanging.append(hanging) }
            return (behaviour, hanging)
        }
        switch behaviour {
        case .succeed: return
        case .succeedAfter(let duration):
            do {
                try await clock.sleep(for: duration)
            } catch {
                throw TunnelError(.closed, "the task was cancelled")
            }
        case .fail(let error): throw error
        case .hang:
            await withTaskCancellationHandler {
                await hanging.value
            } onCancel: {
                hanging.finish(())
            }
        case .hangForever: await hanging.value
        }
    }
}

extension MemoryPlatform.Behaviour {
    fileprivate var hangs: Bool {
        switch self {
        case .hang, .hangForever: true
        default: false
        }
    }
}
