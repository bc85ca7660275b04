// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The life cycle of a tunnel as a state machine: it turns events into effects. It has no clock, task or lock, so that
/// every host behaves the same and a table of states and events can test it completely.
///
/// Each call of start has a number, its run. A start ends once, with ``Effect/endStart(_:_:)``. Events of a run that
/// has ended are ignored. The table is in the documentation under "Life of a tunnel".
package struct TunnelLifecycle: Sendable {
    /// The number of a start.
    package typealias Run = UInt64

    /// The operations with a deadline.
    package enum Deadline: Hashable, Sendable, CaseIterable {
        /// The time until the start has succeeded.
        case start
        /// The time for the provider's stop, and for a cancelled start to return.
        case stop
        /// The time until everything is undone.
        case tearDown
    }

    /// The events.
    package enum Event: Hashable, Sendable {
        /// A caller starts the tunnel, with this minimum policy.
        case start(Run, LeakPolicy)
        /// The provider's start returned, with success or an error, or could not be called.
        case startReturned(Run, TunnelError?)
        /// Settings with this policy are in effect.
        case settingsInForce(Run, LeakPolicy)
        /// The provider reports whether the tunnel currently carries nothing.
        case reasserting(Run, Bool)
        /// The provider ends the tunnel with an error.
        case cancel(Run, TunnelError)
        /// A caller stops the tunnel.
        case stop(StopReason)
        /// The provider's stop returned.
        case stopReturned(Run)
        /// The platform has undone everything.
        case tornDown(Run)
        /// A deadline has passed.
        case deadline(Run, Deadline)
    }

    /// The effects, in order.
    package enum Effect: Hashable, Sendable {
        /// Prepare the platform, make a provider and start it.
        case begin(Run, LeakPolicy)
        /// Begin to deliver events to the provider, because its start succeeded.
        case deliverEvents(Run)
        /// Cancel the task of the provider's start.
        case cancelStart(Run)
        /// Pass no more messages and events to the provider, and end the pending ones.
        case endMessages(Run)
        /// Call the provider's stop.
        case stopProvider(Run, StopReason)
        /// Stop waiting for the provider.
        case abandon(Run)
        /// Close the packet flow and undo everything, except the leak guard if requested.
        case tearDown(Run, leavingBlocked: Bool)
        /// Start the timer of a deadline.
        case arm(Run, Deadline)
        /// Stop the timer of a deadline.
        case disarm(Run, Deadline)
        /// Publish the status.
        case publish(TunnelStatusUpdate)
        /// Report the result of this run's start to its caller; `nil` means success.
        case endStart(Run, TunnelError?)
        /// Report the end of the tunnel to all callers that wait for it.
        case endStops
        /// Release the run.
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
    /// The run that the state belongs to. While the tunnel is down or blocked, it is the last one.
    private var run: Run = 0
    private var lastRun: Run = 0
    /// The strictest policy that this run has had.
    private var policy = LeakPolicy.routeBased
    private var hasSettings = false
    private var isReasserting = false
    /// Whether this run began blocked: the guard of an earlier run blocks packets until there are new settings.
    private var beganBlocked = false
    private var blocksWhenEnded = false
    /// The error that ended the run, or `nil` if the user stopped it.
    private var error: TunnelError?
    private var stopReason = StopReason.userInitiated
    private var queued: Queued?

    /// A tunnel that is down.
    package init() {}

    /// Returns the number of the next start.
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

    /// The row of the leak policy's table that applies.
    package var leakPhase: LeakPolicy.Phase {
        switch state {
        case .down: .off
        case .starting: hasSettings ? .up : beganBlocked ? .blocked : .connecting
        case .up: isReasserting ? .reasserting : .up
        // Before there were settings, the tunnel's networks were not known, and only a policy that blocks everything
        // blocks.
        case .ending, .blocked: hasSettings || beganBlocked || policy.holdsBeforeSettings ? .blocked : .connecting
        }
    }

    /// The policy that applies. It has no meaning while the tunnel is down.
    package var leakPolicy: LeakPolicy { policy }

    /// Whether `run` is the current run and may apply settings.
    package func isRunning(_ run: Run) -> Bool { run == self.run && (state == .starting || state == .up) }

    /// Whether the result of the provider's start in `run` still matters. If it does not and the start succeeds, the
    /// host must stop that provider, so that nothing leaks.
    package func awaitsReturn(of run: Run) -> Bool {
        run == self.run && (state == .starting || state == .ending(.awaitingStart))
    }

    /// Whether the start of `run` has not ended yet.
    package func isStarting(_ run: Run) -> Bool { run == self.run && state == .starting || run == queued?.run }

    // MARK: - Events

    /// Handles an event and returns its effects.
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
        // Only the user may relax a loaded guard.
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
                // Without settings no packet can pass, whatever the provider reports.
                return fail(Self.noSettings, blocks: policy.blocksAfterFailure)
                    + [.endStart(run, Self.noSettings), .arm(run, .stop)] + stopProvider()
            }
            state = .up
            return [.disarm(run, .start), .publish(update), .deliverEvents(run), .endStart(run, nil)]
        case .ending(.awaitingStart):
            // Either the start threw, so the provider has cleaned up, or it ignored its cancellation.
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
        // The user stopped the tunnel meanwhile, so remove the guard too.
        if leftBlocked, !blocksWhenEnded {
            state = .ending(.tearingDown(leavingBlocked: false))
            return [.tearDown(run, leavingBlocked: false)]
        }
        return [.disarm(run, .tearDown)] + end()
    }

    // MARK: - Steps

    /// Changes the state from running to ending.
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

    /// Ends the caller's start. The provider may take until the stop's deadline to react.
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
