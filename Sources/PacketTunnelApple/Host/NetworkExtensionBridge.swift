// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import NetworkExtension
public import PacketTunnel
import Synchronization
import TunnelSystem

/// Connects the system's tunnel provider to a ``TunnelRunner``.
///
/// ``NetworkExtensionHost`` has a bridge and forwards to it. A tunnel provider with another superclass can do the same.
/// Each completion handler is called exactly once, even if the runner no longer waits for a provider that does not
/// answer.
public final class NetworkExtensionBridge<Provider: PacketTunnelProvider>: @unchecked Sendable {
    /// A start by the system, until the system stops it or the bridge reports its end.
    private struct Session {
        /// The number of the start; later ones have higher numbers.
        let number: UInt64
        let request: TunnelStartRequest
        /// Whether the start was passed to the runner. Before that it waits for the network path.
        var isBegun = false
        /// Whether the start's completion handler was called without an error. Before that the system ignores
        /// `reasserting`, and ignores an end that the provider reports.
        var isUp = false
    }

    private struct State {
        var starts: UInt64 = 0
        var session: Session?
        /// The wait of the session's start for the network path.
        var waiting: Task<Void, Never>?
    }

    /// The time that a start waits for the first update of the network path.
    static var pathDeadline: Duration { .seconds(5) }

    /// The runner of the provider.
    public let runner: TunnelRunner<Provider>
    // The system's documentation states: "Instances of this class are thread safe". The provider owns the bridge.
    private weak let provider: NETunnelProvider?
    private let end: (NETunnelProvider, (any Error)?) -> Void
    /// The options of the provider.
    public let options: NetworkExtensionOptions
    private let startSecrets: StartSecrets
    private let paths: PathWatcher?
    private let state = Mutex(State())
    private let watching = Mutex<[Task<Void, Never>]>([])
    /// Requests a call of ``follow()``.
    private let looks: AsyncStream<Void>.Continuation

    /// Creates a bridge whose tunnel is down.
    ///
    /// - Parameters:
    ///   - provider: The system's tunnel provider, which owns the bridge.
    ///   - options: The options of the provider.
    ///   - makeProvider: Makes a provider, once for each start.
    public convenience init(
        _ provider: NEPacketTunnelProvider, options: NetworkExtensionOptions = NetworkExtensionOptions(),
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) {
        let platform = NetworkExtensionPlatform(provider, options)
        self.init(
            provider, options, platform, interfaceName: { [weak platform] in platform?.interfaceName },
            end: { ($0 as? NEPacketTunnelProvider)?.cancelTunnelWithError($1) }, makeProvider: makeProvider)
    }

    /// - Parameters:
    ///   - interfaceName: Returns the name of the tunnel's interface, which is not a part of the network path.
    ///   - end: Reports to the system that the tunnel or proxy has ended, with its error.
    init(
        _ provider: NETunnelProvider, _ options: NetworkExtensionOptions, _ platform: any TunnelPlatform,
        interfaceName: @escaping @Sendable () -> String?, end: @escaping (NETunnelProvider, (any Error)?) -> Void,
        makeProvider: @escaping @Sendable () -> Provider
    ) {
        self.provider = provider
        self.end = end
        self.options = options
        let startSecrets = StartSecrets(next: options.secrets)
        self.startSecrets = startSecrets
        let paths = options.watchesPath ? PathWatcher(ownInterface: interfaceName) : nil
        self.paths = paths
        let runner = TunnelRunner(
            platform: options.wrapPlatform(platform), secrets: startSecrets,
            deadlines: options.deadlines, clock: options.clock, logger: options.logger, log: options.log,
            makeProvider: makeProvider)
        self.runner = runner
        let updates = runner.statusUpdates()
        let (stream, looks) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.looks = looks
        let watching = Task { for await _ in updates { looks.yield() } }
        // Only one task calls `follow`, so that the system receives the statuses in order.
        let following = Task { [weak self] in
            for await _ in stream { self?.follow() }
        }
        self.watching.withLock { $0 = [watching, following] }
        paths?.start { [weak runner] path in runner?.pathChanged(path) }
    }

    deinit {
        for task in watching.withLock({ $0 }) { task.cancel() }
        paths?.stop()
    }

    // MARK: - Starting and stopping

    /// Starts the tunnel with the profile in the options or, if there is none, in the system's configuration. The first
    /// start of a process waits for the network path, which the system reports a little later.
    public func startTunnel(options: [String: NSObject]?, completionHandler: @escaping ((any Error)?) -> Void) {
        let completion = OnceCompletion(completionHandler)
        let start: NetworkExtensionStart
        do throws(TunnelError) {
            start = try NetworkExtensionStart(
                options, provider?.protocolConfiguration, self.options.profiles, adopt: self.options.adoptConfiguration)
        } catch {
            self.options.logger.error("\(error)")
            return completion.call(error.nsError)
        }
        let update = paths?.firstUpdate
        // Hold the lock, so that the system's starts and stops reach the runner in order.
        let number = state.withLock { state -> UInt64? in
            guard !hasRunningSession(state) else { return nil }
            state.starts += 1
            state.session = Session(number: state.starts, request: start.request)
            startSecrets.hold(start.secrets, of: state.starts)
            state.waiting = update.map { update in Task { await self.waitForPath(update) } }
            return state.starts
        }
        guard let number else { return completion.call(Self.alreadyRunning.nsError) }
        let waiting = state.withLock { $0.session?.number == number ? $0.waiting : nil }
        guard let waiting else { return finish(number, begin(number), completion) }
        Task {
            await waiting.value
            self.finish(number, self.begin(number), completion)
        }
    }

    /// Whether a start is in progress or the tunnel is up. A session whose tunnel has failed has ended, even before the
    /// bridge has reported it.
    private func hasRunningSession(_ state: State) -> Bool {
        guard let session = state.session else { return false }
        return !session.isUp || [.connecting, .connected, .reasserting].contains(runner.status.status)
    }

    /// Returns after the first update of the path, after ``pathDeadline``, or when the task is cancelled.
    private func waitForPath(_ update: OneShot<Void>) async {
        let outcome = await withDeadline(Self.pathDeadline, clock: options.clock) { await update.value }
        guard case .timedOut = outcome else { return }
        options.logger.warning("the system did not report a network path in time; starting without it")
    }

    /// Passes a start to the runner; returns `nil` if the system has stopped it.
    private func begin(_ number: UInt64) -> (@Sendable () async -> TunnelError?)? {
        state.withLock { state in
            guard let session = state.session, session.number == number else { return nil }
            state.waiting = nil
            state.session?.isBegun = true
            return runner.beginStart(session.request)
        }
    }

    /// Reports the result of a start to the system.
    private func finish(
        _ number: UInt64, _ begun: (@Sendable () async -> TunnelError?)?, _ completion: OnceCompletion<(any Error)?>
    ) {
        guard let begun else { return completion.call(Self.stopped.nsError) }
        Task {
            if let error = await begun() {
                self.state.withLock { if $0.session?.number == number { $0.session = nil } }
                self.startSecrets.forget(start: number)
                return completion.call(error.nsError)
            }
            completion.call(nil)
            self.state.withLock { if $0.session?.number == number { $0.session?.isUp = true } }
            // Until now `follow` ignored the tunnel's statuses.
            self.looks.yield()
        }
    }

    /// Stops the tunnel.
    public func stopTunnel(with reason: NEProviderStopReason, completionHandler: @escaping () -> Void) {
        let completion = OnceCompletion<Void> { _ in completionHandler() }
        let (number, stopped) = state.withLock { state in
            state.waiting?.cancel()
            (state.session, state.waiting) = (nil, nil)
            return (state.starts, runner.beginStop(StopReason(reason)))
        }
        Task {
            await stopped()
            // This keeps the secrets of a start that the system requested during this stop.
            self.startSecrets.forget(start: number)
            completion.call(())
        }
    }

    private static var alreadyRunning: TunnelError {
        TunnelError(.alreadyRunning, "the tunnel is starting or up already", fix: "stop it first")
    }

    private static var stopped: TunnelError {
        TunnelError(.stopped, "the tunnel was stopped while it was starting")
    }

    /// Reports to the system that the tunnel currently has no connection, or that it ended without a request.
    private func follow() {
        let update = state.withLock { state -> TunnelStatusUpdate? in
            // While the tunnel starts or stops, the system waits for a completion handler, so report nothing.
            guard state.session?.isUp == true else { return nil }
            let update = runner.status
            if update.status == .disconnected {
                state.session = nil
                startSecrets.forget(start: state.starts)
            }
            return update
        }
        switch update?.status {
        case .reasserting, .blocked: reassert(true)
        case .connected: reassert(false)
        case .disconnected: if let provider { end(provider, update?.error?.nsError) }
        case .invalid, .connecting, .disconnecting, nil: return
        }
    }

    private func reassert(_ isOn: Bool) {
        guard let provider, provider.reasserting != isOn else { return }
        provider.reasserting = isOn
    }

    // MARK: - Messages

    /// Answers a message of the app.
    public func handleAppMessage(_ messageData: Data, completionHandler: ((Data?) -> Void)?) {
        let completion = OnceCompletion<Data?> { completionHandler?($0) }
        Task { completion.call(await self.answer(messageData)) }
    }

    private func answer(_ data: Data) async -> Data? {
        guard let request = ExtensionMessage.request(data) else {
            return await answerPlain(data)
        }
        do throws(TunnelError) {
            switch request {
            case .message(let bytes):
                return ExtensionMessage.encode(.answer(try await runner.sendMessage(bytes)))
            case .status: break
            case .restart(let options):
                if let error = await (try restart(options))() { throw error }
            }
            return ExtensionMessage.encode(.status(runner.status))
        } catch {
            return ExtensionMessage.encode(.failure(error))
        }
    }

    /// Restarts the system's session for a tunnel that failed and is blocked.
    /// - Throws: `.notRunning` if the system has ended the tunnel.
    private func restart(_ options: [String: JSONValue]?) throws(TunnelError) -> @Sendable () async -> TunnelError? {
        let begun = state.withLock { state -> (@Sendable () async -> TunnelError?)? in
            guard let session = state.session else { return nil }
            guard session.isBegun else { return { Self.alreadyRunning } }
            var request = session.request
            request.options = options
            return runner.beginStart(request)
        }
        guard let begun else {
            throw TunnelError(.notRunning, "the system has ended the tunnel, or never started it", fix: "start it")
        }
        return begun
    }

    /// Answers a message that does not come from a channel: returns the provider's answer, or nothing. A
    /// `MessageClient` gets the reason for a missing answer.
    private func answerPlain(_ data: Data) async -> Data? {
        do throws(TunnelError) {
            return try await runner.sendMessage(Array(data)).map { Data($0) }
        } catch {
            options.logger.warning("a message has no answer: \(error)")
            return MessageRouter.refusal(error, of: Array(data)).map { Data($0) }
        }
    }

    // MARK: - Sleep and wake

    /// Notifies the provider that the device is about to sleep.
    public func sleep(completionHandler: @escaping () -> Void) {
        let completion = OnceCompletion<Void> { _ in completionHandler() }
        // Queue the event before this returns, because the system may call `wake` immediately afterwards.
        let ready = runner.beginSleep()
        Task {
            await ready()
            completion.call(())
        }
    }

    /// Notifies the provider that the device woke up.
    public func wake() { runner.wake() }
}

/// A completion handler of the system. Calls after the first have no effect.
///
/// The system permits the call on any thread.
final class OnceCompletion<Value>: @unchecked Sendable {
    private let handler: (Value) -> Void
    private let isDone = Atomic<Bool>(false)

    init(_ handler: @escaping (Value) -> Void) {
        self.handler = handler
    }

    func call(_ value: Value) {
        if !isDone.exchange(true, ordering: .acquiringAndReleasing) { handler(value) }
    }
}
