// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The life cycle of a tunnel as a value: events in, effects out. It has no clock, task or lock, so that every host has the
/// same life cycle and a table can test all of it.
///
/// Each call of start has a number, its run. A start ends once, with ``Effect/endStart(_:_:)``. Events of an ended run are
/// ignored. The documentation's "Life of a tunnel" has the table of states and events.
package struct TunnelLifecycle: Sendable {
    /// The number of a start.
    package typealias Run = UInt64

    /// The operations with a deadline.
    package enum Deadline: Hashable, Sendable, CaseIterable {
        /// Until the start succeeded.
        case start
        /// The provider's stop, with the wait for a cancelled start.
        case stop
        /// Until everything is undone.
        case tearDown
    }

    /// The events.
    package enum Event: Hashable, Sendable {
        /// A caller wants the tunnel up, under this policy at least.
        case start(Run, LeakPolicy)
        /// The provider's start returned, with success or an error; or it could not be called.
        case startReturned(Run, TunnelError?)
        /// Settings with this policy are in effect.
        case settingsInForce(Run, LeakPolicy)
        /// The provider says whether it is carrying nothing for the present.
        case reasserting(Run, Bool)
        /// The provider gives up.
        case cancel(Run, TunnelError)
        /// A caller wants the tunnel down.
        case stop(StopReason)
        /// The provider's stop returned.
        case stopReturned(Run)
        /// The platform has undone everything.
        case tornDown(Run)
        /// Time is up.
        case deadline(Run, Deadline)
    }

    /// The effects, in order.
    package enum Effect: Hashable, Sendable {
        /// Prepare the platform, make a provider and start it.
        case begin(Run, LeakPolicy)
        /// Let the provider have events: its start succeeded.
        case deliverEvents(Run)
        /// Cancel the task of the provider's start.
        case cancelStart(Run)
        /// Let no more messages and events reach the provider, and end those that wait.
        case endMessages(Run)
        /// Call the provider's stop.
        case stopProvider(Run, StopReason)
        /// Leave the provider to itself.
        case abandon(Run)
        /// Close the packet flow and undo everything, except the leak guard if requested.
        case tearDown(Run, leavingBlocked: Bool)
        /// Begin to wait for a deadline.
        case arm(Run, Deadline)
        /// Stop waiting for it.
        case disarm(Run, Deadline)
        /// Publish the status.
        case publish(TunnelStatusUpdate)
        /// Tell who started this run how it ended; nil is success.
        case endStart(Run, TunnelError?)
        /// Tell all who wait for the end.
        case endStops
        /// Forget the run.
        case forget(Run)
    }

    private enum State: Hashable, Sendable {
        case down
        case starting
        case up
        case ending(Step)
        case blocked
    }

    private enum Step: Hashable, Sendable {
        case awaitingStart
        case stopping
        case tearingDown(leavingBlocked: Bool)
    }

    private struct Queued: Sendable {
        var run: Run
        var policy: LeakPolicy
    }

    private var state = State.down
    /// The run that the state is about; the last one while down or blocked.
    private var run: Run = 0
    private var lastRun: Run = 0
    /// The strictest policy that this run has had.
    private var policy = LeakPolicy.routeBased
    private var hasSettings = false
    private var isReasserting = false
    /// Whether this run began blocked: the packets of an earlier one are blocked until there are new settings.
    private var beganBlocked = false
    private var blocksWhenEnded = false
    /// The error that ended the run, or `nil` if the user stopped it.
    private var error: TunnelError?
    private var stopReason = StopReason.userInitiated
    private var queued: Queued?

    /// A tunnel that is down.
    package init() {}

    /// A number for the next start.
    package mutating func makeRun() -> Run {
        lastRun += 1
        return lastRun
    }

    // MARK: - State

    /// The status.
    package var status: TunnelStatus {
        switch state {
        case .down: .disconnected
        case .starting: .connecting
        case .up: isReasserting ? .reasserting : .connected
        case .ending: .disconnecting
        case .blocked: .blocked
        }
    }

    /// The status, and the tunnel's error.
    package var update: TunnelStatusUpdate { TunnelStatusUpdate(status, error: error) }

    /// The row of the leak policy's table that holds.
    package var leakPhase: LeakPolicy.Phase {
        switch state {
        case .down: .off
        case .starting: hasSettings ? .up : beganBlocked ? .blocked : .connecting
        case .up: isReasserting ? .reasserting : .up
        // Before there were settings the tunnel's networks were unknown, except to a policy that blocks everything.
        case .ending, .blocked: hasSettings || beganBlocked || policy.holdsBeforeSettings ? .blocked : .connecting
        }
    }

    /// The policy that holds; meaningless while down.
    package var leakPolicy: LeakPolicy { policy }

    /// Whether `run` is the one at work and may apply settings.
    package func isRunning(_ run: Run) -> Bool { run == self.run && (state == .starting || state == .up) }

    /// Whether it matters how the provider's start of `run` returns. Later, success is a provider to be stopped on the
    /// side, so that nothing leaks.
    package func awaitsReturn(of run: Run) -> Bool {
        run == self.run && (state == .starting || state == .ending(.awaitingStart))
    }

    /// Whether the start of `run` has not ended yet.
    package func isStarting(_ run: Run) -> Bool { run == self.run && state == .starting || run == queued?.run }

    // MARK: - Events

    /// Takes an event and says what to do.
    package mutating func handle(_ event: Event) -> [Effect] {
        switch event {
        case .start(let run, let policy): return start(run, policy)
        case .stop(let reason): return stop(reason)
        case .deadline(let run, .start) where run == queued?.run:
            queued = nil
            return [.endStart(run, Self.startTimedOut), .forget(run)]
        case .startReturned(let run, let error): return run == self.run ? startReturned(error) : []
        case .settingsInForce(let run, let policy):
            guard isRunning(run) else { return [] }
            hasSettings = true
            self.policy = max(self.policy, policy)
            return []
        case .reasserting(let run, let isOn):
            guard isRunning(run), isOn != isReasserting else { return [] }
            isReasserting = isOn
            return state == .up ? [.publish(update)] : []
        case .cancel(let run, let error): return run == self.run ? cancel(error) : []
        case .stopReturned(let run):
            guard run == self.run, state == .ending(.stopping) else { return [] }
            return [.disarm(run, .stop)] + tearDown()
        case .tornDown(let run): return run == self.run ? tornDown() : []
        case .deadline(let run, let deadline): return run == self.run ? deadlinePassed(deadline) : []
        }
    }

    private mutating func start(_ run: Run, _ policy: LeakPolicy) -> [Effect] {
        switch state {
        case .starting, .up:
            return [.endStart(run, Self.alreadyRunning), .forget(run)]
        case .ending where queued != nil:
            return [.endStart(run, Self.alreadyRunning), .forget(run)]
        case .ending:
            queued = Queued(run: run, policy: policy)
            return [.arm(run, .start)]
        case .down, .blocked:
            return [.arm(run, .start)] + begin(run, policy)
        }
    }

    private mutating func begin(_ run: Run, _ policy: LeakPolicy) -> [Effect] {
        beganBlocked = state == .blocked
        // A loaded guard is not relaxed before the user does so.
        self.policy = beganBlocked ? max(policy, self.policy) : policy
        self.run = run
        (hasSettings, isReasserting, error, blocksWhenEnded) = (false, false, nil, false)
        state = .starting
        return [.publish(update), .begin(run, self.policy)]
    }

    private mutating func startReturned(_ error: TunnelError?) -> [Effect] {
        switch state {
        case .starting:
            if let error {
                self.error = error
                blocksWhenEnded = policy.blocksAfterFailure
                return leave() + [.disarm(run, .start), .endStart(run, error)] + tearDown()
            }
            guard hasSettings else {
                // Without settings no packet passes, whatever the provider reports.
                return fail(Self.noSettings, blocks: policy.blocksAfterFailure)
                    + [.endStart(run, Self.noSettings), .arm(run, .stop)] + stopProvider()
            }
            state = .up
            return [.disarm(run, .start), .publish(update), .deliverEvents(run), .endStart(run, nil)]
        case .ending(.awaitingStart):
            // It threw, so it has cleaned up; or it did not notice its cancellation.
            if error != nil { return [.disarm(run, .stop)] + tearDown() }
            return stopProvider()
        default: return []
        }
    }

    private mutating func cancel(_ error: TunnelError) -> [Effect] {
        switch state {
        case .starting: return giveUpStart(error, recorded: error, blocks: policy.blocksAfterFailure)
        case .up:
            return fail(error, blocks: policy.blocksAfterFailure) + [.arm(run, .stop)] + stopProvider()
        default: return []
        }
    }

    private mutating func stop(_ reason: StopReason) -> [Effect] {
        stopReason = reason
        switch state {
        case .down: return [.endStops]
        case .starting:
            return giveUpStart(Self.stopped(reason), recorded: nil, blocks: false)
        case .up:
            return leave() + [.arm(run, .stop)] + stopProvider()
        case .ending:
            blocksWhenEnded = false
            guard let queued else { return [] }
            self.queued = nil
            return [
                .disarm(queued.run, .start), .endStart(queued.run, Self.stopped(reason)), .forget(queued.run),
            ]
        case .blocked:
            error = nil
            blocksWhenEnded = false
            return [.publish(TunnelStatusUpdate(.disconnecting))] + tearDown()
        }
    }

    private mutating func deadlinePassed(_ deadline: Deadline) -> [Effect] {
        switch (deadline, state) {
        case (.start, .starting):
            return giveUpStart(Self.startTimedOut, recorded: Self.startTimedOut, blocks: policy.blocksAfterFailure)
        case (.stop, .ending(.awaitingStart)), (.stop, .ending(.stopping)): return [.abandon(run)] + tearDown()
        case (.tearDown, .ending(.tearingDown)):
            if error == nil { error = Self.tearDownTimedOut }
            return end()
        default: return []
        }
    }

    private mutating func tornDown() -> [Effect] {
        guard case .ending(.tearingDown(let leftBlocked)) = state else { return [] }
        // The user stopped it meanwhile: the guard is removed as well.
        if leftBlocked, !blocksWhenEnded {
            state = .ending(.tearingDown(leavingBlocked: false))
            return [.tearDown(run, leavingBlocked: false)]
        }
        return [.disarm(run, .tearDown)] + end()
    }

    // MARK: - Steps

    /// Goes from running to ending.
    private mutating func leave() -> [Effect] {
        state = .ending(.stopping)
        return [.publish(update), .endMessages(run)]
    }

    private mutating func fail(_ error: TunnelError, blocks: Bool) -> [Effect] {
        self.error = error
        stopReason = error.stopReason
        blocksWhenEnded = blocks
        return leave() + [.disarm(run, .start)]
    }

    /// The caller's start has ended; the provider may take until the stop's deadline to notice.
    private mutating func giveUpStart(_ error: TunnelError, recorded: TunnelError?, blocks: Bool) -> [Effect] {
        self.error = recorded
        stopReason = error.stopReason
        blocksWhenEnded = blocks
        state = .ending(.awaitingStart)
        return [
            .publish(update), .endMessages(run), .disarm(run, .start), .endStart(run, error), .arm(run, .stop),
            .cancelStart(run),
        ]
    }

    private mutating func stopProvider() -> [Effect] {
        state = .ending(.stopping)
        return [.stopProvider(run, stopReason)]
    }

    private mutating func tearDown() -> [Effect] {
        state = .ending(.tearingDown(leavingBlocked: blocksWhenEnded))
        return [.arm(run, .tearDown), .tearDown(run, leavingBlocked: blocksWhenEnded)]
    }

    private mutating func end() -> [Effect] {
        state = blocksWhenEnded ? .blocked : .down
        var effects: [Effect] = [.publish(update), .endStops, .forget(run)]
        if let queued {
            self.queued = nil
            effects += begin(queued.run, queued.policy)
        }
        return effects
    }

    // MARK: - Errors

    private static let alreadyRunning = TunnelError(
        .alreadyRunning, "the tunnel is starting or up already", fix: "stop it first")
    private static let startTimedOut = TunnelError(
        .startTimedOut, "the tunnel did not come up in time", fix: "check the server's address and the network")
    private static let noSettings = TunnelError(
        .settingsMissing, "the provider started without applying settings",
        fix: "call apply(_:) before start returns")
    private static let tearDownTimedOut = TunnelError(
        .hostFailed, "the system's network settings were not restored in time", fix: "start or clean up again")

    private static func stopped(_ reason: StopReason) -> TunnelError {
        TunnelError(.stopped, "the tunnel was stopped while it was starting", stopReason: reason)
    }
}
