// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// The app's way to a tunnel in an extension, through the system's session.
final class NetworkExtensionChannel: TunnelChannel {
    let configuration: SystemConfiguration
    private let options: NetworkExtensionManagerOptions
    private let profileID: String
    private let secrets: (any SecretStore)?
    private let updates: Broadcast<TunnelStatusUpdate>
    private let follower: SessionFollower

    init(
        _ configuration: SystemConfiguration, _ options: NetworkExtensionManagerOptions, profileID: String,
        secrets: (any SecretStore)?
    ) {
        self.configuration = configuration
        self.options = options
        self.profileID = profileID
        self.secrets = secrets
        let updates = Broadcast(TunnelStatusUpdate(TunnelStatus(configuration.status)))
        self.updates = updates
        follower = SessionFollower(configuration, updates, clock: options.clock)
    }

    /// Looks at the status again: it may be the first time that there is one. Returns once it is told.
    func refresh() async { await follower.look() }

    /// How many statuses the system told so far.
    var statusCount: Int { follower.count }

    /// There is no such tunnel any more.
    func end() { updates.finish(with: TunnelStatusUpdate(.invalid)) }

    var status: TunnelStatusUpdate { updates.current }

    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { updates.follow() }

    // MARK: - Starting

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        let outcome = await withDeadline(options.startTimeout, clock: options.clock) {
            () async -> TunnelError? in
            do throws(TunnelError) {
                try await self.startAndWait(request)
                return nil
            } catch {
                return error
            }
        }
        switch outcome {
        case .finished(let error): if let error { throw error }
        case .timedOut:
            configuration.session?.stopTunnel()
            throw TunnelError(
                .startTimedOut, "the system did not bring the tunnel up in time",
                fix: "see whether the extension crashes: the device's log tells")
        case .cancelled:
            configuration.session?.stopTunnel()
            throw TunnelError(.stopped, "the start was given up")
        }
    }

    private func startAndWait(_ request: TunnelStartRequest) async throws(TunnelError) {
        switch status.status {
        case .blocked: return try await restart()
        case .connecting, .connected, .reasserting:
            throw TunnelError(.alreadyRunning, "the tunnel is starting or up already")
        case .disconnecting:
            for await update in updates.follow() where update.status != .disconnecting { break }
        case .invalid, .disconnected: break
        }
        let options = NetworkExtensionStart.options(request, secrets: try await secretsToPass())
        if !configuration.manager.isEnabled { try await configuration.save { $0.isEnabled = true } }
        let before = follower.count
        try await launch(options)
        // The status there was is none of this start.
        for await update in updates.follow() where follower.count > before {
            switch update.status {
            case .connected: return
            case .disconnected:
                throw update.error ?? TunnelError(.stopped, "the tunnel was stopped while it was starting")
            case .invalid: throw TunnelError.noProfile(profileID)
            case .connecting, .reasserting, .disconnecting, .blocked: continue
            }
        }
        throw TunnelError(.stopped, "the start was given up")
    }

    /// Asks the system to start; what it has to read again first, it gets.
    private func launch(_ options: [String: NSObject]) async throws(TunnelError) {
        guard let session = configuration.session else {
            throw TunnelError(.channelFailed, "the connection is no tunnel provider's")
        }
        do {
            try session.startTunnel(options: options)
        } catch {
            // Another profile may have been enabled instead, here or elsewhere.
            try await configuration.load()
            if !configuration.manager.isEnabled { try await configuration.save { $0.isEnabled = true } }
            do {
                try session.startTunnel(options: options)
            } catch {
                throw TunnelError(error, fallback: .channelFailed)
            }
        }
    }

    /// Starts a tunnel again that the extension keeps blocked, and that is up for the system.
    private func restart() async throws(TunnelError) {
        let reply = try ExtensionMessage.reply(
            try await configuration.send(ExtensionMessage.encode(.restart)))
        await follower.look()
        if case .failure(let error) = reply { throw error }
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
        guard status.status.isActive else { return }
        follower.expectStop()
        configuration.session?.stopTunnel()
        let updates = updates
        let outcome = await withDeadline(options.stopTimeout, clock: options.clock) {
            for await update in updates.follow() where !update.status.isActive { break }
        }
        if case .timedOut = outcome {
            throw TunnelError(
                .channelFailed, "the system did not take the tunnel down in time",
                fix: "switch it off in the system's settings")
        }
    }

    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        // Where it blocks, its provider does not run, but the extension does, and has a log.
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
