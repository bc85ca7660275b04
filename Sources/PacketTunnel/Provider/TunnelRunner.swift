// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import Synchronization
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Runs providers on a platform. All hosts share it.
///
/// It executes the effects of `TunnelLifecycle`, with a task and a deadline for each slow operation. Any task may use
/// it. A tunnel that is not down retains its runner.
public final class TunnelRunner<Provider: PacketTunnelProvider>: TunnelHost {
    typealias Run = TunnelRun<Provider>

    struct Timer: Hashable {
        var run: TunnelLifecycle.Run
        var deadline: TunnelLifecycle.Deadline
    }

    struct State {
        var lifecycle = TunnelLifecycle()
        var effects: [TunnelLifecycle.Effect] = []
        var isCarryingOut = false
        var runs: [TunnelLifecycle.Run: Run] = [:]
        var timers: [Timer: Task<Void, Never>] = [:]
        var stopWaiters: [OneShot<Void>] = []
        /// The platform's operations that exceeded their deadline. Nothing new begins before they end.
        var lingering: [Task<Void, Never>] = []
        var path: NetworkPath
        /// Whether the device is asleep: `sleep()` was called, and `wake()` was not called since.
        var isAsleep = false
    }

    let platform: any TunnelPlatform
    let deadlines: TunnelDeadlines
    let clock: any Clock<Duration>
    let logger: Logger
    /// The store of the profiles' secrets.
    public let secrets: (any SecretStore)?
    let makeProvider: @Sendable () -> Provider
    let state: Mutex<State>
    private let messages: HostMessages
    private let updates = Broadcast(TunnelStatusUpdate(.disconnected))

    /// Creates a runner for a tunnel that is down.
    ///
    /// - Parameters:
    ///   - platform: Applies settings.
    ///   - path: The present network path.
    ///   - secrets: The store of the profiles' secrets.
    ///   - deadlines: The time limits.
    ///   - clock: The clock of the deadlines. It should also advance while the machine sleeps.
    ///   - logger: The log of the runner and its providers.
    ///   - log: The file that `logger` writes to, for apps that ask for its lines (``LogRequest``, ``LogSubscription``).
    ///   - makeProvider: Makes a provider, once for each start.
    public init(
        platform: any TunnelPlatform, path: NetworkPath = NetworkPath(), secrets: (any SecretStore)? = nil,
        deadlines: TunnelDeadlines = TunnelDeadlines(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel"), log: RingLogFile? = nil,
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) {
        messages = HostMessages(log: log, clock: clock, logger: logger)
        self.platform = platform
        self.secrets = secrets
        self.deadlines = deadlines
        self.clock = clock
        self.logger = logger
        self.makeProvider = makeProvider
        state = Mutex(State(path: path))
    }

    // MARK: - The host

    /// Starts the tunnel; returns once it is up. Cancelling the task stops the tunnel.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        try await end(of: begin(request))
    }

    /// Begins a start before it returns, so that a later stop is handled after it.
    /// - Returns: A function that waits for the end of the start, for one caller, and returns its error; `nil` if the
    ///   tunnel is up.
    package func beginStart(_ request: TunnelStartRequest) -> @Sendable () async -> TunnelError? {
        let run = begin(request)
        return { await run.started.value }
    }

    /// Begins a start for another process, with the configuration as JSON, which the run decodes.
    private func begin(_ request: TunnelStartRequest) -> Run {
        begin(request.leakPolicy, profileID: request.profileID, options: request.options) { () throws(TunnelError) in
            do {
                return try JSONDecoder().decode(Provider.Configuration.self, from: Data(request.configuration))
            } catch let error as TunnelError {
                throw error
            } catch {
                throw TunnelError(
                    .configurationInvalid, "the configuration does not decode: \(describe(error))",
                    fix: "correct the profile")
            }
        }
    }

    /// Starts the tunnel with a configuration from this process; returns once the tunnel is up. Cancelling the task
    /// stops the tunnel.
    public func start(
        _ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil
    ) async throws(TunnelError) {
        try await end(of: begin(leakPolicy, profileID: profileID) { () throws(TunnelError) in configuration })
    }

    private func begin(
        _ leakPolicy: LeakPolicy, profileID: String?, options: [String: JSONValue]? = nil,
        configuration: @escaping @Sendable () throws(TunnelError) -> Provider.Configuration
    ) -> Run {
        let run = state.withLock { state in
            let run = Run(
                number: state.lifecycle.makeRun(), profileID: profileID, options: options, runner: self,
                configuration: configuration)
            state.runs[run.number] = run
            return run
        }
        handle(.start(run.number, leakPolicy))
        return run
    }

    private func end(of run: Run) async throws(TunnelError) {
        let error = await withTaskCancellationHandler {
            await run.started.value
        } onCancel: {
            self.cancelStart(run.number)
        }
        if let error { throw error }
    }

    /// Stops the tunnel; returns once it is down.
    public func stop(_ reason: StopReason) async { await beginStop(reason)() }

    /// Begins a stop before it returns, so that a later start is handled after it.
    /// - Returns: A function that waits until the tunnel is down, for one caller.
    package func beginStop(_ reason: StopReason) -> @Sendable () async -> Void {
        let done = OneShot<Void>()
        state.withLock { $0.stopWaiters.append(done) }
        handle(.stop(reason))
        return { await done.value }
    }

    /// The status now.
    public var status: TunnelStatusUpdate { updates.current }

    /// The status now and every later change.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { updates.follow() }

    /// The policy and its phase in the leak policy's table, or `nil` while there is no tunnel.
    public var leakState: (policy: LeakPolicy, phase: LeakPolicy.Phase)? {
        state.withLock { state in
            let phase = state.lifecycle.leakPhase
            return phase == .off ? nil : (state.lifecycle.leakPolicy, phase)
        }
    }

    /// Sends a message to the provider; returns its answer, or `nil` if it has none. The host itself answers messages
    /// about the log (``LogRequest``, ``LogSubscription``), whether the tunnel is up or not.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        if let answer = await messages.answer(message) { return answer }
        return try await withProvider { provider in await provider.handleAppMessage(message) }
    }

    /// Calls the provider in this process directly, without a message. As with a message, the provider may still be
    /// starting.
    /// - Parameter limit: The time limit of the call; `nil` for no limit.
    /// - Throws: The error of `call`; `.notRunning` if the tunnel is down or ends before the call returns; `.closed` if
    ///   the task is cancelled; `.providerFailed` after `limit`. After the last two the call is cancelled but not
    ///   awaited, so it may still have an effect.
    package func withProvider<Value: Sendable>(
        within limit: Duration? = nil, _ call: @escaping @Sendable (Provider) async throws(TunnelError) -> Value
    ) async throws(TunnelError) -> Value {
        let answer = OneShot<Result<Value, TunnelError>>()
        guard let run = runningRun, let (provider, number) = run.beginCall({ answer.finish(.failure($0)) }) else {
            throw TunnelError(.notRunning, "the tunnel is not up", fix: "start it first")
        }
        defer { run.endCall(number) }
        let work = Task {
            do throws(TunnelError) {
                answer.finish(.success(try await call(provider)))
            } catch {
                answer.finish(.failure(error))
            }
        }
        defer {
            work.cancel()
            // Ends the wait for a provider that does not return.
            answer.finish(.failure(Self.notRunning))
        }
        switch await withDeadline(limit, clock: clock, { await answer.value }) {
        case .finished(let result): return try result.get()
        case .cancelled: throw TunnelError(.closed, "the task was cancelled")
        case .timedOut:
            throw TunnelError(.providerFailed, "the tunnel did not answer in time", fix: "try again later")
        }
    }

    /// Notifies the provider that the device is about to sleep. Returns when the provider is ready, or at the deadline.
    /// A provider that starts while the device sleeps is notified once its start has succeeded.
    public func sleep() async { await beginSleep()() }

    /// Queues the sleep event before it returns, so that a later ``wake()`` is handled after it.
    /// - Returns: A function that waits, for one caller, until the provider is ready or the deadline has passed.
    package func beginSleep() -> @Sendable () async -> Void {
        let done = OneShot<Void>()
        let isTold = state.withLock { state in
            state.isAsleep = true
            guard let run = Self.upRun(state) else { return false }
            run.post(.sleep(done))
            return true
        }
        let (limit, clock) = (deadlines.sleep, clock)
        return { if isTold { _ = await withDeadline(limit, clock: clock) { await done.value } } }
    }

    /// Notifies the provider that the device woke up.
    public func wake() {
        state.withLock { state in
            state.isAsleep = false
            Self.upRun(state)?.post(.wake)
        }
    }

    /// Notifies the provider that the network path changed.
    public func pathChanged(_ path: NetworkPath) {
        state.withLock { $0.path = path }
        runningRun?.post(.path(path))
    }

    /// The provider of the tunnel that is starting or up, or `nil` if there is none. A host's own code can pass other
    /// things than packets and messages to it, such as the flows of an app proxy.
    public var provider: Provider? { runningRun?.state.withLock { $0.provider } }

    /// Ends a tunnel that is starting or up, with an error of its host.
    package func fail(_ error: TunnelError) {
        if let run = runningRun { handle(.cancel(run.number, error)) }
    }

    /// The current run, if it is starting or up.
    var runningRun: Run? {
        state.withLock { state in state.runs.values.first { state.lifecycle.isRunning($0.number) } }
    }

    private static func upRun(_ state: State) -> Run? {
        guard state.lifecycle.status != .connecting else { return nil }
        return state.runs.values.first { state.lifecycle.isRunning($0.number) }
    }

    /// Handles the cancellation of the task that waits for this start.
    private func cancelStart(_ number: TunnelLifecycle.Run) {
        let isWaiting = state.withLock { $0.lifecycle.isStarting(number) }
        if isWaiting { handle(.stop(.userInitiated)) }
    }

    // MARK: - Events and effects

    /// Handles an event and executes its effects in order, by one thread at a time. It does not hold the lock
    /// meanwhile, because a cancelled task may call back immediately.
    /// - Returns: The value of `check` immediately before the event.
    @discardableResult
    func handle(
        _ event: TunnelLifecycle.Event, check: (TunnelLifecycle) -> Bool = { _ in true }
    ) -> Bool {
        let (result, carriesOut) = state.withLock { state in
            let result = check(state.lifecycle)
            state.effects += state.lifecycle.handle(event)
            guard !state.isCarryingOut, !state.effects.isEmpty else { return (result, false) }
            state.isCarryingOut = true
            return (result, true)
        }
        if carriesOut {
            while let (effect, run) = nextEffect() { carryOut(effect, run) }
        }
        return result
    }

    private func nextEffect() -> (TunnelLifecycle.Effect, Run?)? {
        state.withLock { state in
            guard !state.effects.isEmpty else {
                state.isCarryingOut = false
                return nil
            }
            let effect = state.effects.removeFirst()
            return (effect, effect.run.flatMap { state.runs[$0] })
        }
    }

    private func carryOut(_ effect: TunnelLifecycle.Effect, _ run: Run?) {
        switch effect {
        case .begin(_, let policy): if let run { begin(run, policy) }
        // Hold the lock, so that a wake is either before this or after it.
        case .deliverEvents: state.withLock { run?.allowEvents(isAsleep: $0.isAsleep) }
        case .cancelStart:
            let task = run?.state.withLock { state in
                state.isStartCancelled = true
                return state.startTask
            }
            task?.cancel()
        case .endMessages: run?.end()
        case .stopProvider(let number, let reason):
            let provider = run?.state.withLock { $0.provider }
            Task {
                await provider?.stop(reason)
                self.handle(.stopReturned(number))
            }
        case .abandon: logger.warning("the provider did not stop in time and is left to itself")
        case .tearDown(let number, let leavingBlocked): tearDown(number, run, leavingBlocked: leavingBlocked)
        case .arm(let number, let deadline): arm(number, deadline)
        case .disarm(let number, let deadline):
            let timer = state.withLock { $0.timers.removeValue(forKey: Timer(run: number, deadline: deadline)) }
            timer?.cancel()
        case .publish(let update):
            log(update)
            updates.send(update)
        case .endStart(_, let error): run?.started.finish(error)
        case .endStops:
            let waiters = state.withLock { state in
                defer { state.stopWaiters = [] }
                return state.stopWaiters
            }
            for waiter in waiters { waiter.finish(()) }
        case .forget(let number): forget(number)
        }
    }

    private func log(_ update: TunnelStatusUpdate) {
        let error = update.error.map { ": \($0)" } ?? ""
        logger.log(level: update.error == nil ? .info : .error, "tunnel \(update.status.rawValue)\(error)")
    }

    private func arm(_ number: TunnelLifecycle.Run, _ deadline: TunnelLifecycle.Deadline) {
        let limit =
            switch deadline {
            case .start: deadlines.start
            case .stop: deadlines.stop
            case .tearDown: deadlines.tearDown
            }
        let clock = clock
        let timer = Task {
            guard (try? await clock.sleep(for: limit)) != nil else { return }
            self.handle(.deadline(number, deadline))
        }
        state.withLock { $0.timers[Timer(run: number, deadline: deadline)] = timer }
    }

    private func forget(_ number: TunnelLifecycle.Run) {
        let (run, timers) = state.withLock { state in
            let timers = state.timers.filter { $0.key.run == number }
            for timer in timers.keys { state.timers[timer] = nil }
            return (state.runs.removeValue(forKey: number), timers.values)
        }
        for timer in timers { timer.cancel() }
        run?.end()
        run?.flow.close()
        // Break the cycle: the provider has the context, which has the run, and an app may keep the context. Release
        // the objects after the lock, because a provider's deinitializer may call its context, which takes the lock.
        let kept = run?.state.withLock { state in
            defer { (state.runner, state.provider, state.startTask, state.applyWork) = (nil, nil, nil, nil) }
            return (state.runner, state.provider, state.startTask, state.applyWork)
        }
        withExtendedLifetime(kept) {}
    }
}

/// Describes the error of a configuration, with its place.
private func describe(_ error: any Error) -> String {
    guard let (place, reason) = (error as? DecodingError)?.problem() else { return String(describing: error) }
    return place.isEmpty ? reason : "\(place): \(reason)"
}
