// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// The state of one start of a tunnel: its provider, its tasks, and its waiters.
final class TunnelRun<Provider: PacketTunnelProvider>: Sendable {
    /// The host's events for the provider, in order.
    enum Event: Sendable {
        case sleep(OneShot<Void>)
        case wake
        case path(NetworkPath)
    }

    struct State {
        /// The runner until the tunnel is down. A context that is kept longer keeps the run alone, and not the host's threads and
        /// descriptors.
        var runner: TunnelRunner<Provider>?
        var provider: Provider?
        var startTask: Task<Void, Never>?
        var isStartCancelled = false
        var hasEnded = false
        /// The platform's work on settings, one after the other.
        var isApplying = false
        var applyQueue: [OneShot<Void>] = []
        var applyWork: Task<Void, Never>?
        /// The calls and messages that the provider has not answered, each with the function that ends it with an error.
        var calls: [UInt64: @Sendable (TunnelError) -> Void] = [:]
        var nextCall: UInt64 = 0
        var events: [Event] = []
        var deliversEvents = false
        var isDelivering = false
    }

    let number: TunnelLifecycle.Run
    /// The profile whose secrets the provider may read; `nil` if it needs none.
    let profileID: String?
    let configuration: @Sendable () throws(TunnelError) -> Provider.Configuration
    let flow = PacketFlow()
    let started = OneShot<TunnelError?>()
    let state: Mutex<State>

    /// Events that wait while the provider is busy; beyond this the oldest go.
    private static var eventCapacity: Int { 64 }

    init(
        number: TunnelLifecycle.Run, profileID: String?, runner: TunnelRunner<Provider>,
        configuration: @escaping @Sendable () throws(TunnelError) -> Provider.Configuration
    ) {
        state = Mutex(State(runner: runner))
        self.number = number
        self.profileID = profileID
        self.configuration = configuration
    }

    // MARK: - Settings

    /// Waits until no other settings are being applied.
    func enterApply() async {
        let turn = state.withLock { state -> OneShot<Void>? in
            guard state.isApplying else {
                state.isApplying = true
                return nil
            }
            let turn = OneShot<Void>()
            state.applyQueue.append(turn)
            return turn
        }
        await turn?.value
    }

    func leaveApply() {
        let next = state.withLock { state -> OneShot<Void>? in
            guard !state.applyQueue.isEmpty else {
                state.isApplying = false
                return nil
            }
            return state.applyQueue.removeFirst()
        }
        next?.finish(())
    }

    // MARK: - Calls

    /// The provider, while it may be called, and the number of the call.
    /// - Parameter fail: ends the call with an error, if the tunnel ends first.
    func beginCall(_ fail: @escaping @Sendable (TunnelError) -> Void) -> (Provider, UInt64)? {
        state.withLock { state in
            guard !state.hasEnded, let provider = state.provider else { return nil }
            defer { state.nextCall += 1 }
            state.calls[state.nextCall] = fail
            return (provider, state.nextCall)
        }
    }

    func endCall(_ number: UInt64) {
        _ = state.withLock { $0.calls.removeValue(forKey: number) }
    }

    /// Ends calls and events: the provider is about to stop.
    func end() {
        let (calls, events) = state.withLock { state in
            state.hasEnded = true
            defer { (state.calls, state.events) = ([:], []) }
            return (Array(state.calls.values), state.events)
        }
        for fail in calls { fail(TunnelError(.notRunning, "the tunnel ended before it answered")) }
        events.forEach(Self.discard)
    }

    // MARK: - Events

    func post(_ event: Event) {
        let discarded = state.withLock { state -> Event? in
            guard !state.hasEnded else { return event }
            // Of paths in a row only the last one matters.
            if case .path = event, case .path? = state.events.last { state.events.removeLast() }
            state.events.append(event)
            return state.events.count > Self.eventCapacity ? state.events.removeFirst() : nil
        }
        if let discarded { Self.discard(discarded) }
        deliver()
    }

    /// Delivers events from now on.
    /// - Parameter isAsleep: whether the device is asleep. Then the provider receives `sleep()`, once.
    func allowEvents(isAsleep: Bool) {
        state.withLock { state in
            state.deliversEvents = true
            let knowsSleep = state.events.contains { if case .sleep = $0 { true } else { false } }
            if isAsleep, !knowsSleep { state.events.append(.sleep(OneShot())) }
        }
        deliver()
    }

    private static func discard(_ event: Event) {
        if case .sleep(let done) = event { done.finish(()) }
    }

    private func deliver() {
        let provider = state.withLock { state -> Provider? in
            guard state.deliversEvents, !state.isDelivering, !state.events.isEmpty else { return nil }
            state.isDelivering = true
            return state.provider
        }
        guard let provider else { return }
        Task {
            while let event = nextEvent() {
                switch event {
                case .sleep(let done):
                    await provider.sleep()
                    done.finish(())
                case .wake: await provider.wake()
                case .path(let path): await provider.pathChanged(path)
                }
            }
        }
    }

    private func nextEvent() -> Event? {
        state.withLock { state in
            guard !state.events.isEmpty else {
                state.isDelivering = false
                return nil
            }
            return state.events.removeFirst()
        }
    }
}
