// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Observation
import PacketTunnel

/// The app's state: one profile, the status of its tunnel, and the problem to show.
@MainActor @Observable
final class AppModel {
    private(set) var profile: TunnelProfile?
    private(set) var status = TunnelStatusUpdate(.disconnected)
    /// The error of the last action.
    var problem: String?
    private let manager: TunnelManager
    private var follower: Task<Void, Never>?

    init(_ manager: TunnelManager) { self.manager = manager }

    /// The text to show: the error of the last action, or the one that ended the tunnel.
    var message: String? { problem ?? status.error?.description }

    /// Reads the stored profile. Call it when the app starts.
    func load() async {
        await perform { () throws(TunnelError) in try await manager.load() }
        await follow()
    }

    /// Stores a profile, and its password as a secret. The system asks the user for permission, once.
    func install(_ configuration: LoginConfiguration, password: String) async {
        await perform { () throws(TunnelError) in
            var profile = try TunnelProfile(
                name: "My tunnel", provider: "login", serverAddress: configuration.server, encoding: configuration)
            profile.userName = configuration.login
            try await manager.create(profile, secrets: ["password": SecretBytes(password.utf8)])
        }
        await follow()
    }

    /// Changes the password. A running tunnel reconnects with it.
    func setPassword(_ password: String) async {
        await perform { () throws(TunnelError) in
            guard let profile else { return }
            try await manager.update(profile, secrets: ["password": SecretBytes(password.utf8)])
            guard await manager.status(profile.id).status.isActive else { return }
            try await manager.stop(profile.id)
            try await manager.start(profile.id)
        }
    }

    /// Starts the tunnel, or stops it if it is up.
    func toggle() async {
        await perform { () throws(TunnelError) in
            guard let profile else { return }
            if await manager.status(profile.id).status.isActive {
                try await manager.stop(profile.id)
            } else {
                try await manager.start(profile.id)
            }
        }
    }

    /// Removes the profile and its password.
    func remove() async {
        await perform { () throws(TunnelError) in if let profile { try await manager.remove(profile.id) } }
        await follow()
    }

    /// Shows the first profile, and each status of its tunnel.
    private func follow() async {
        follower?.cancel()
        profile = await manager.profiles.first
        status = TunnelStatusUpdate(.disconnected)
        guard let profile else { return }
        let updates = await manager.statusUpdates(profile.id)
        follower = Task { [weak self] in
            for await update in updates { self?.status = update }
        }
    }

    private func perform(_ action: () async throws(TunnelError) -> Void) async {
        problem = nil
        do throws(TunnelError) { try await action() } catch { problem = error.description }
    }
}
