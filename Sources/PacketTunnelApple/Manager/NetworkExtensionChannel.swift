// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// The app's channel to a tunnel in an extension, through the system's session.
final class NetworkExtensionChannel: Tunnel {
    private struct Link {
        var configuration: SystemConfiguration
        var follower: SessionFollower
    }

    /// The time in which the system must report a start, after a start was cancelled and the system has repeated that
    /// the tunnel is down. At the end of this time the attempt ends; see ``stopLateStart(since:)``.
    private static let repeatLimit = Duration.seconds(3)

    private let options: NetworkExtensionManagerOptions
    private let profileID: String
    private let secrets: (any SecretStore)?
    private let record: SessionRecord
    private let link: Mutex<Link>
    private let attempt = Mutex<StartAttempt?>(nil)
    /// Stops a tunnel that the system starts late, after its start was cancelled.
    private let lateStop = Mutex<Task<Void, Never>?>(nil)

    init(
        _ configuration: SystemConfiguration, _ options: NetworkExtensionManagerOptions, profileID: String,
        secrets: (any SecretStore)?
    ) {
        self.options = options
        self.profileID = profileID
        self.secrets = secrets
        record = SessionRecord(TunnelStatusUpdate(TunnelStatus(configuration.status)))
        let follower = SessionFollower(configuration, record, clock: options.clock)
        link = Mutex(Link(configuration: configuration, follower: follower))
    }

    deinit { lateStop.withLock { $0?.cancel() } }

    /// The system's configuration.
    var configuration: SystemConfiguration { link.withLock { $0.configuration } }

    /// Switches to another of the system's configuration objects, because the present one was never saved or was
    /// removed.
    func replaceConfiguration(with configuration: SystemConfiguration) {
        let follower = SessionFollower(configuration, record, clock: options.clock)
        link.withLock { $0 = Link(configuration: configuration, follower: follower) }
    }

    private var follower: SessionFollower { link.withLock { $0.follower } }

    /// Reads the status and begins to follow it if necessary. Returns when the status was reported.
    func refresh() async { await follower.refresh() }

    /// The number of statuses that the system reported so far.
    var statusCount: Int { record.steps.current.count }

    /// Called when the tunnel was removed.
    func end() { record.finish() }

    var status: TunnelStatusUpdate { record.updates.current }

    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { record.updates.follow() }

    // MARK: - Starting

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        let attempt = StartAttempt()
        // From here on a stop ends this attempt.
        let (previous, isBusy) = self.attempt.withLock { current -> (StartAttempt?, Bool) in
            if let current, !current.isCancelled { return (current, true) }
            defer { current = attempt }
            return (current, false)
        }
        if isBusy { throw Self.alreadyRunning }
        // This task is not cancelled with the caller. It ends when the tunnel is up, or is known to stay down.
        let work = Task { () -> TunnelError? in
            // A cancelled attempt may still be saving, and its tunnel may still be stopping.
            await previous?.waitUntilFinished()
            var failure: TunnelError?
            do throws(TunnelError) { try await run(request, attempt) } catch { failure = error }
            self.attempt.withLock { if $0 === attempt { $0 = nil } }
            attempt.finish()
            return failure
        }
        let error: TunnelError?
        switch await withDeadline(options.startTimeout, clock: options.clock, { await work.value }) {
        case .finished(let failure): error = failure
        case .timedOut:
            error = TunnelError(
                .startTimedOut, "the system did not bring the tunnel up in time",
                fix: "see whether the extension crashes: the device's log tells")
            abandon(attempt, work)
        case .cancelled:
            error = TunnelError(.stopped, "the start was cancelled")
            abandon(attempt, work)
        }
        if let error { throw error }
    }

    private static let alreadyRunning = TunnelError(.alreadyRunning, "the tunnel is starting or up already")

    /// Ensures in the background that the tunnel stays down.
    private func abandon(_ attempt: StartAttempt, _ work: Task<TunnelError?, Never>) {
        stopTunnel(attempt)
        let options = options
        Task {
            _ = await withDeadline(options.stopTimeout, clock: options.clock) { await attempt.waitUntilFinished() }
            work.cancel()
        }
    }

    /// Cancels the attempt. Returns whether the start was requested from the system.
    @discardableResult
    private func stopTunnel(_ attempt: StartAttempt) -> Bool {
        let link = link.withLock { $0 }
        return attempt.cancel {
            link.follower.expectStop()
            link.configuration.session?.stopTunnel()
        }
    }

    private func run(_ request: TunnelStartRequest, _ attempt: StartAttempt) async throws(TunnelError) {
        await follower.settle()
        try attempt.check()
        // A save would create the configuration again after a removal that failed only in part.
        guard configuration.isSaved else { throw TunnelError.noProfile(profileID) }
        switch status.status {
        case .blocked: return try await restart(attempt, request.options)
        case .connecting, .connected, .reasserting: throw Self.alreadyRunning
        case .disconnecting:
            for await update in record.updates.follow() where update.status != .disconnecting { break }
        case .invalid, .disconnected: break
        }
        let options = NetworkExtensionStart.options(request, secrets: try await secretsToPass())
        try attempt.check()
        if !configuration.manager.isEnabled { try await configuration.save { $0.isEnabled = true } }
        await follower.settle()
        lateStop.withLock { current in
            current?.cancel()
            current = nil
        }
        // The statuses so far do not belong to this start.
        let before = record.steps.current
        try await launch(options, attempt)
        try await waitUntilUp(since: before, attempt)
    }

    private func waitUntilUp(since before: SessionRecord.Step, _ attempt: StartAttempt) async throws(TunnelError) {
        var hasBegun = false
        defer { if attempt.isCancelled, !hasBegun { stopLateStart(since: before) } }
        for await step in record.steps.follow() where step.count > before.count {
            switch step.update.status {
            case .connecting, .connected, .reasserting:
                hasBegun = true
                // The system ignores a stop that arrives before it has begun to start.
                if attempt.isCancelled { stopTunnel(attempt) } else if step.update.status == .connected { return }
            case .disconnected:
                if step.activeCount == before.activeCount {
                    // The system repeats a status from before this start. The caller has a deadline.
                    while await !becomesActive(since: before) { try attempt.check() }
                    continue
                }
                throw step.update.error ?? StartAttempt.stopped
            case .invalid: throw TunnelError.noProfile(profileID)
            case .disconnecting, .blocked: continue
            }
        }
        throw TunnelError(.stopped, "the start was cancelled")
    }

    /// Waits until the system reports that it starts the tunnel; returns `false` if it did not do so in time.
    private func becomesActive(since before: SessionRecord.Step) async -> Bool {
        let steps = record.steps
        let outcome = await withDeadline(Self.repeatLimit, clock: options.clock) {
            for await step in steps.follow() where step.activeCount > before.activeCount { return }
        }
        return if case .finished = outcome { true } else { false }
    }

    /// Stops the tunnel of a cancelled start, in the background, as soon as the system starts it, because the system
    /// may ignore an earlier stop. This ends with the next start, or after the time limit of a start, because the user
    /// can start the tunnel too.
    private func stopLateStart(since before: SessionRecord.Step) {
        let (record, link, options) = (record, link.withLock { $0 }, options)
        let task = Task {
            _ = await withDeadline(options.startTimeout, clock: options.clock) {
                for await step in record.steps.follow() where step.activeCount > before.activeCount {
                    link.follower.expectStop()
                    link.configuration.session?.stopTunnel()
                    return
                }
            }
        }
        lateStop.withLock { current in
            current?.cancel()
            current = task
        }
    }

    /// Requests the start from the system, and first reloads the configuration if necessary.
    private func launch(_ options: [String: NSObject], _ attempt: StartAttempt) async throws(TunnelError) {
        let configuration = configuration
        guard let session = configuration.session else {
            throw TunnelError(.channelFailed, "the connection does not belong to a tunnel provider")
        }
        do {
            guard try attempt.launch({ try session.startTunnel(options: options) }) else { throw StartAttempt.stopped }
        } catch let error as TunnelError {
            throw error
        } catch {
            // This app or another program may have enabled another profile.
            try await configuration.load()
            if !configuration.manager.isEnabled { try await configuration.save { $0.isEnabled = true } }
            do {
                guard try attempt.launch({ try session.startTunnel(options: options) }) else {
                    throw StartAttempt.stopped
                }
            } catch let error as TunnelError {
                throw error
            } catch {
                throw TunnelError(error, fallback: .channelFailed)
            }
        }
    }

    /// Restarts a tunnel that the extension blocks and that the system regards as up.
    private func restart(_ attempt: StartAttempt, _ options: [String: JSONValue]?) async throws(TunnelError) {
        guard attempt.launch({}) else { throw StartAttempt.stopped }
        let reply = try ExtensionMessage.reply(
            try await configuration.send(ExtensionMessage.encode(.restart(options: options))))
        await follower.refresh()
        if case .failure(let error) = reply { throw error }
        try attempt.check()
    }

    private func secretsToPass() async throws(TunnelError) -> [String: SecretBytes] {
        guard options.passesSecrets, let secrets else { return [:] }
        var passed: [String: SecretBytes] = [:]
        for name in try await secrets.names(of: profileID) {
            passed[name] = try await secrets.read(name, of: profileID)
        }
        return passed
    }

    // MARK: - Stopping and messages

    func stop(_ reason: StopReason) async throws(TunnelError) {
        let attempt = attempt.withLock { $0 }
        let link = link.withLock { $0 }
        // The system's report may not have arrived yet.
        let isReported = status.status.isActive
        let isActive = isReported || TunnelStatus(link.configuration.status).isActive
        guard isActive || attempt != nil else { return }
        let hasLaunched = attempt.map { stopTunnel($0) } ?? false
        if isActive {
            link.follower.expectStop()
            link.configuration.session?.stopTunnel()
        }
        let updates = record.updates
        let outcome = await withDeadline(options.stopTimeout, clock: options.clock) {
            // A tunnel that was not started stays down, so do not wait for it.
            if hasLaunched { await attempt?.waitUntilFinished() }
            if isActive, !isReported { await link.follower.refresh() }
            for await update in updates.follow() where !update.status.isActive { break }
        }
        if case .timedOut = outcome {
            throw TunnelError(
                .channelFailed, "the system did not take the tunnel down in time",
                fix: "switch it off in the system's settings")
        }
    }

    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        // If the tunnel is blocked, its provider does not run, but the extension does and can answer requests for its
        // log.
        guard status.status.isRunning || status.status == .blocked else {
            throw TunnelError(.notRunning, "the tunnel is not up", fix: "start it first")
        }
        switch try ExtensionMessage.reply(try await configuration.send(ExtensionMessage.encode(.message(message))))
        {
        case .answer(let bytes): return bytes
        case .failure(let error): throw error
        case .status: throw TunnelError(.channelFailed, "the extension answered something else")
        }
    }
}
