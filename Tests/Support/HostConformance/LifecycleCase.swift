// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel
import Testing

/// One cell of the table of life-cycle cases: a situation, an event, and the required outcome.
package struct LifecycleCase: Sendable, CustomTestStringConvertible {
    /// The activity of the tunnel at the time of the event.
    package enum Situation: String, CaseIterable, Sendable {
        case disconnected
        /// The platform does not complete its preparation.
        case preparing
        /// The platform does not complete the settings.
        case applying
        /// The provider's start does not return.
        case connecting
        case connected
        /// Connected under a policy that blocks.
        case strict
        case reasserting
        /// The tunnel was stopped, but the provider's start ignores this.
        case givenUp
        /// The provider's stop does not return.
        case stopping
        /// The platform does not complete the undo.
        case tearingDown
        /// The provider failed under a policy that blocks.
        case blocked
    }

    package enum Event: String, CaseIterable, Sendable {
        /// Another caller also starts the tunnel.
        case start
        case stop
        /// The provider ends the tunnel with an error.
        case fail
        case reassert
        case assert
        /// The time limit of a start passes.
        case wait
        /// The step that hangs continues.
        case release
        case message
        case sleepAndWake
        /// The task that waits for the start is cancelled.
        case cancel
    }

    /// The result of a second start, or of a message.
    package enum Answer: Sendable, Equatable {
        case none
        case success
        case failure(TunnelError.Code)
        /// The call returns only once the tunnel has stopped.
        case later
    }

    package var situation: Situation
    package var event: Event
    /// The statuses that follow, up to the test's cleanup.
    package var statuses: [TunnelStatus]
    /// The result of the event for its caller.
    package var answer = Answer.none

    package var testDescription: String { "\(situation.rawValue) + \(event.rawValue)" }

    private init(_ situation: Situation, _ event: Event, _ statuses: [TunnelStatus], _ answer: Answer = .none) {
        (self.situation, self.event, self.statuses, self.answer) = (situation, event, statuses, answer)
    }

    private static let ends: [TunnelStatus] = [.disconnecting, .disconnected]

    /// The table.
    package static let all: [LifecycleCase] = Situation.allCases.flatMap { situation in
        Event.allCases.map { event in make(situation, event) }
    }

    private static func make(_ situation: Situation, _ event: Event) -> LifecycleCase {
        switch event {
        case .start: start(situation)
        case .stop, .cancel: stop(situation, event)
        case .fail: fail(situation)
        case .reassert:
            LifecycleCase(situation, event, [.connected, .strict].contains(situation) ? [.reasserting] : [])
        case .assert: LifecycleCase(situation, event, situation == .reasserting ? [.connected] : [])
        case .wait: wait(situation)
        case .release: release(situation)
        case .message: message(situation)
        case .sleepAndWake: LifecycleCase(situation, event, [])
        }
    }

    private static func start(_ situation: Situation) -> LifecycleCase {
        switch situation {
        case .disconnected, .blocked: LifecycleCase(situation, .start, [.connecting, .connected], .success)
        case .givenUp, .stopping, .tearingDown: LifecycleCase(situation, .start, [], .later)
        default: LifecycleCase(situation, .start, [], .failure(.alreadyRunning))
        }
    }

    private static func stop(_ situation: Situation, _ event: Event) -> LifecycleCase {
        let isStarting = [.preparing, .applying, .connecting].contains(situation)
        // A start that has ended has no task that could be cancelled.
        if event == .cancel, !isStarting { return LifecycleCase(situation, event, []) }
        switch situation {
        case .disconnected, .givenUp, .stopping, .tearingDown: return LifecycleCase(situation, event, [])
        default: return LifecycleCase(situation, event, ends)
        }
    }

    private static func fail(_ situation: Situation) -> LifecycleCase {
        switch situation {
        case .applying, .connecting, .connected, .reasserting: LifecycleCase(situation, .fail, ends)
        case .strict: LifecycleCase(situation, .fail, [.disconnecting, .blocked])
        // There is no provider, or its reports are ignored.
        default: LifecycleCase(situation, .fail, [])
        }
    }

    private static func wait(_ situation: Situation) -> LifecycleCase {
        switch situation {
        case .preparing, .applying, .connecting: LifecycleCase(situation, .wait, ends)
        case .givenUp, .stopping, .tearingDown: LifecycleCase(situation, .wait, [.disconnected])
        default: LifecycleCase(situation, .wait, [])
        }
    }

    private static func release(_ situation: Situation) -> LifecycleCase {
        switch situation {
        case .preparing, .applying, .connecting: LifecycleCase(situation, .release, [.connected])
        case .givenUp, .stopping, .tearingDown: LifecycleCase(situation, .release, [.disconnected])
        default: LifecycleCase(situation, .release, [])
        }
    }

    private static func message(_ situation: Situation) -> LifecycleCase {
        switch situation {
        case .applying, .connecting, .connected, .strict, .reasserting:
            LifecycleCase(situation, .message, [], .success)
        default: LifecycleCase(situation, .message, [], .failure(.notRunning))
        }
    }
}
