// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import Network
public import NetworkExtension
public import PacketTunnel
import Synchronization

/// Everything that happens between the system's tunnel provider and a ``TunnelRunner``.
///
/// ``NetworkExtensionHost`` has one and forwards to it. A tunnel provider of another ancestry can have one as well.
/// Each completion handler is called exactly once, also when the runner gives up on a provider that does not answer.
public final class NetworkExtensionBridge<Provider: PacketTunnelProvider>: @unchecked Sendable {
    private enum Phase {
        case idle
        case starting
        case up
        case stopping
    }

    private struct State {
        var phase = Phase.idle
        var request: TunnelStartRequest?
    }

    /// What runs the provider.
    public let runner: TunnelRunner<Provider>
    // "Instances of this class are thread safe", says the system's documentation. It has the bridge.
    private weak let provider: NEPacketTunnelProvider?
    private let options: NetworkExtensionOptions
    private let startSecrets: StartSecrets
    private let paths: PathWatcher?
    private let state = Mutex(State())
    private let watching = Mutex<Task<Void, Never>?>(nil)

    /// A bridge whose tunnel is down.
    ///
    /// - Parameters:
    ///   - provider: the system's tunnel provider, which keeps the bridge.
    ///   - options: how the provider is run.
    ///   - makeProvider: makes a provider, once for each start.
    public init(
        _ provider: NEPacketTunnelProvider, options: NetworkExtensionOptions = NetworkExtensionOptions(),
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) {
        self.provider = provider
        self.options = options
        let platform = NetworkExtensionPlatform(provider, options)
        let startSecrets = StartSecrets(next: options.secrets)
        self.startSecrets = startSecrets
        let paths = options.watchesPath ? PathWatcher { [weak platform] in platform?.interfaceName } : nil
        self.paths = paths
        let runner = TunnelRunner(
            platform: options.wrapPlatform(platform), path: paths?.current ?? NetworkPath(), secrets: startSecrets,
            deadlines: options.deadlines, clock: options.clock, logger: options.logger, log: options.log,
            makeProvider: makeProvider)
        self.runner = runner
        let updates = runner.statusUpdates()
        let task = Task { [weak self] in
            for await update in updates { self?.follow(update) }
        }
        watching.withLock { $0 = task }
        paths?.start { [weak runner] path in runner?.pathChanged(path) }
    }

    deinit {
        watching.withLock { $0 }?.cancel()
        paths?.stop()
    }

    // MARK: - Starting and stopping

    /// Starts the tunnel with what the options, or else the system's configuration, say.
    public func startTunnel(options: [String: NSObject]?, completionHandler: @escaping ((any Error)?) -> Void) {
        let completion = OnceCompletion(completionHandler)
        let start: NetworkExtensionStart
        do throws(TunnelError) {
            start = try NetworkExtensionStart(options, provider?.protocolConfiguration, self.options.profiles)
        } catch {
            self.options.logger.error("\(error)")
            return completion.call(error.nsError)
        }
        startSecrets.set(start.secrets)
        state.withLock { state in
            if state.phase == .idle { state.phase = .starting }
            state.request = start.request
        }
        Task {
            do throws(TunnelError) {
                try await self.runner.start(start.request)
                self.state.withLock { if $0.phase == .starting { $0.phase = .up } }
                completion.call(nil)
                // It may have failed by now.
                self.follow(self.runner.status)
            } catch {
                self.state.withLock { if $0.phase == .starting { $0.phase = .idle } }
                completion.call(error.nsError)
            }
        }
    }

    /// Stops the tunnel.
    public func stopTunnel(with reason: NEProviderStopReason, completionHandler: @escaping () -> Void) {
        let completion = OnceCompletion<Void> { _ in completionHandler() }
        state.withLock { $0.phase = .stopping }
        Task {
            await self.runner.stop(StopReason(reason))
            self.state.withLock { if $0.phase == .stopping { $0.phase = .idle } }
            self.startSecrets.set([:])
            completion.call(())
        }
    }

    /// Tells the system what it can be told: that the tunnel carries nothing for now, or that it has ended by itself.
    private func follow(_ update: TunnelStatusUpdate) {
        switch update.status {
        case .reasserting, .blocked: reassert(true)
        case .connected: reassert(false)
        case .disconnected:
            let hasEnded = state.withLock { state in
                guard state.phase == .up else { return false }
                state.phase = .idle
                return true
            }
            // Not while it starts or stops: then the system waits for a completion handler.
            if hasEnded { provider?.cancelTunnelWithError(update.error?.nsError) }
        case .invalid, .connecting, .disconnecting: return
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
            case .restart:
                guard let request = state.withLock({ $0.request }) else {
                    throw TunnelError(.notRunning, "the tunnel was never started")
                }
                try await runner.start(request)
            }
            return ExtensionMessage.encode(.status(runner.status))
        } catch {
            return ExtensionMessage.encode(.failure(error))
        }
    }

    /// The answer to a message that does not come from a channel: the provider's bytes, or nothing. A `MessageClient` that gets
    /// no answer is told why.
    private func answerPlain(_ data: Data) async -> Data? {
        do throws(TunnelError) {
            return try await runner.sendMessage(Array(data)).map { Data($0) }
        } catch {
            options.logger.warning("a message has no answer: \(error)")
            return MessageRouter.refusal(error, of: Array(data)).map { Data($0) }
        }
    }

    // MARK: - Sleep and wake

    /// Tells the provider that the device is about to sleep.
    public func sleep(completionHandler: @escaping () -> Void) {
        let completion = OnceCompletion<Void> { _ in completionHandler() }
        Task {
            await self.runner.sleep()
            completion.call(())
        }
    }

    /// Tells the provider that the device woke up.
    public func wake() { runner.wake() }
}
