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
        /// The runner, until the tunnel is down. So a context that is kept longer retains only the run, not the host's
        /// threads and descriptors.
        var runner: TunnelRunner<Provider>?
        var provider: Provider?
        var startTask: Task<Void, Never>?
        var isStartCancelled = false
        var hasEnded = false
        /// Whether the platform is applying settings. Further settings wait in `applyQueue`.
        var isApplying = false
        var applyQueue: [OneShot<Void>] = []
        var applyWork: Task<Void, Never>?
        /// The unanswered calls and messages to the provider, each with the function that ends it with an error.
        var calls: [UInt64: @Sendable (TunnelError) -> Void] = [:]
        var nextCall: UInt64 = 0
        var events: [Event] = []
        var deliversEvents = false
        var isDelivering = false
    }

    let number: TunnelLifecycle.Run
    /// The profile whose secrets the provider may read; `nil` if it needs none.
    let profileID: String?
    /// The app's options for this start; `nil` if there are none.
    let options: [String: JSONValue]?
    let configuration: @Sendable () throws(TunnelError) -> Provider.Configuration
    let flow = PacketFlow()
    let started = OneShot<TunnelError?>()
    let state: Mutex<State>

    /// The number of events that can wait for a busy provider. Beyond it the oldest are dropped.
    private static var eventCapacity: Int { 64 }

    init(
        number: TunnelLifecycle.Run, profileID: String?, options: [String: JSONValue]?, runner: TunnelRunner<Provider>,
        configuration: @escaping @Sendable () throws(TunnelError) -> Provider.Configuration
    ) {
        state = Mutex(State(runner: runner))
        self.number = number
        self.profileID = profileID
        self.options = options
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

    /// Returns the provider, if it may be called, and the number of the call.
    /// - Parameter fail: Ends the call with an error if the tunnel ends before the call returns.
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

    /// Ends calls and events, because the provider is about to be stopped.
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
            // Of consecutive path changes only the last one matters.
            if case .path = event, case .path? = state.events.last { state.events.removeLast() }
            state.events.append(event)
            return state.events.count > Self.eventCapacity ? state.events.removeFirst() : nil
        }
        if let discarded { Self.discard(discarded) }
        deliver()
    }

    /// Begins to deliver events.
    /// - Parameter isAsleep: Whether the device is asleep. If it is, the provider receives one `sleep()`.
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
