// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import Observation
public import PacketTunnel
import PacketTunnelApple
public import WireGuardTunnel

/// What the app shows and does: profiles, their status, and how a tunnel does.
@MainActor @Observable
public final class TunnelModel {
    /// The profiles, sorted by name.
    public private(set) var profiles: [TunnelProfile] = []
    /// The status of each profile's tunnel, by the profile's id.
    public private(set) var statuses: [String: TunnelStatusUpdate] = [:]
    /// What went wrong last, in words for the user; nil once something went well.
    public private(set) var problem: String?

    private let manager: TunnelManager
    private var followers: [String: Task<Void, Never>] = [:]

    /// A model over `manager`.
    public init(_ manager: TunnelManager) {
        self.manager = manager
    }

    /// The manager for this app: tunnels in the extension on a device, in the app itself on a simulator.
    public static func makeManager() -> TunnelManager {
        let identifier = (Bundle.main.bundleIdentifier ?? "com.example.AppleTunnel") + ".extension"
        let group = Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String
        return TunnelManager.default(
            NetworkExtensionManagerOptions(providerBundleIdentifier: identifier, accessGroup: group)
        ) { WireGuardTunnelProvider() }
    }

    /// Reads what is saved, and follows it from then on.
    public func load() async {
        await perform {
            let unreadable = try await manager.load()
            if let error = unreadable.first { throw error }
        }
        await refresh()
    }

    private func refresh() async {
        profiles = await manager.profiles
        for profile in profiles where followers[profile.id] == nil {
            let updates = await manager.statusUpdates(profile.id)
            followers[profile.id] = Task { [weak self] in
                for await update in updates { self?.statuses[profile.id] = update }
            }
        }
    }

    /// Adds a profile from the text of a wg-quick file.
    public func add(wgQuick text: String, name: String) async {
        await perform {
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: name)
            let server = parts.configuration.peers.first?.endpoint ?? ""
            let profile = TunnelProfile(
                name: name, provider: "wireguard", serverAddress: server,
                configuration: try JSONValue(encoding: parts.configuration))
            try await manager.create(profile, secrets: parts.secrets)
        }
        await refresh()
    }

    /// Starts the tunnel, or stops it when it is up.
    public func toggle(_ profile: TunnelProfile) async {
        await perform {
            if await manager.status(profile.id).status.isActive {
                try await manager.stop(profile.id)
            } else {
                try await manager.start(profile.id)
            }
        }
    }

    /// Whether the tunnel starts by itself, on any network.
    public func setOnDemand(_ isOn: Bool, of profile: TunnelProfile) async {
        await perform {
            var profile = profile
            profile.onDemand = .always
            profile.isOnDemandEnabled = isOn
            try await manager.update(profile)
        }
        await refresh()
    }

    /// Removes a profile and its secrets.
    public func remove(_ profile: TunnelProfile) async {
        await perform { try await manager.remove(profile.id) }
        followers.removeValue(forKey: profile.id)?.cancel()
        statuses[profile.id] = nil
        await refresh()
    }

    /// How a tunnel does; nil while it is down.
    public func statistics(of profile: TunnelProfile) async -> StatusRequest.Reply? {
        let client = MessageClient(channel: ManagerChannel(manager: manager, id: profile.id))
        return try? await client.send(StatusRequest())
    }

    private func perform(_ body: () async throws -> Void) async {
        do {
            try await body()
            problem = nil
        } catch {
            problem = "\(error)"
        }
    }
}

/// Messages to the provider of a profile's tunnel.
struct ManagerChannel: MessageChannel {
    let manager: TunnelManager
    let id: String

    func exchange(_ request: [UInt8]) async throws -> [UInt8]? { try await manager.sendMessage(request, to: id) }
}
