// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
public import Observation
public import PacketTunnel
import PacketTunnelApple
import WireGuardCore
public import WireGuardTunnel

/// The state and actions of the app: profiles, their status, and the state of tunnels.
@MainActor @Observable
public final class TunnelModel {
    /// The screen to show.
    public enum Screen: Equatable, Sendable {
        /// Profiles are being read.
        case loading
        /// No profile can be read, and at least one is stored: the page offers to read again.
        case unreadable
        /// No profile is stored: the page says how to begin.
        case welcome
        /// The profiles.
        case profiles
    }

    /// The profiles, sorted by name.
    public private(set) var profiles: [TunnelProfile] = []
    /// The status of each profile's tunnel, by the profile's id.
    public private(set) var statuses: [String: TunnelStatusUpdate] = [:]
    /// The traffic of each tunnel that is watched, by the profile's ID.
    public private(set) var traffic: [String: Traffic] = [:]
    /// The profiles with an operation in progress, which the spinner shows.
    public private(set) var busy: Set<String> = []
    /// Whether a profile is being installed.
    public private(set) var isInstalling = false
    /// The alert to show; `nil` if there is none.
    public var alert: AlertText?
    /// The profile whose removal the user is asked to confirm.
    public var removal: TunnelProfile?
    private var isLoaded = false
    /// Whether the last load found profiles that cannot be read.
    private var hasUnreadable = false
    /// The stored profiles that cannot be read: they can be stopped and removed.
    public private(set) var unreadable: [UnreadableProfile] = []

    private let manager: TunnelManager
    private let interval: Duration
    private let taps: SwitchTaps
    private var followers: [String: Task<Void, Never>] = [:]
    /// The number of operations under way, by the profile's id.
    private var workCounts: [String: Int] = [:]

    /// A model over `manager`, which asks tunnels how they do once in each `interval`.
    public init(_ manager: TunnelManager, interval: Duration = .seconds(1)) {
        self.manager = manager
        self.interval = interval
        taps = SwitchTaps(manager)
    }

    /// The manager for this app: tunnels in the extension on a device, in the app itself on a simulator.
    public static func makeManager() -> TunnelManager {
        TunnelManager.default(.app(extension: "extension", adopt: FormerConfiguration.readWireGuardKit)) {
            WireGuardTunnelProvider()
        }
    }

    /// The screen to show.
    public var screen: Screen {
        if !isLoaded { return .loading }
        if !profiles.isEmpty { return .profiles }
        return hasUnreadable ? .unreadable : .welcome
    }

    /// Whether an alert is shown; setting it to `false` closes it.
    public var isAlerting: Bool {
        get { alert != nil }
        set { if !newValue { alert = nil } }
    }

    /// Whether the app asks the user to confirm a removal; setting it to `false` keeps the profile.
    public var isConfirmingRemoval: Bool {
        get { removal != nil }
        set { if !newValue { removal = nil } }
    }

    /// Loads the saved profiles and follows their changes.
    public func load() async {
        let isRead = await perform("Some tunnels cannot be read") { try await manager.loadAndTidy() }
        unreadable = await manager.unreadableProfiles
        if isRead, let error = unreadable.first?.error { alert = AlertText("Some tunnels cannot be read", error) }
        hasUnreadable = !isRead || !unreadable.isEmpty
        await refresh()
        isLoaded = true
    }

    private func refresh() async {
        profiles = await manager.profiles
        for profile in profiles where followers[profile.id] == nil {
            let updates = await manager.statusUpdates(profile.id)
            guard followers[profile.id] == nil else { continue }
            followers[profile.id] = Task { [weak self] in
                for await update in updates { self?.take(update, of: profile) }
                guard !Task.isCancelled else { return }
                await self?.followAgain(profile)
            }
        }
    }

    /// Follows a profile again: its updates end when the manager forgets it.
    private func followAgain(_ profile: TunnelProfile) async {
        followers[profile.id] = nil
        guard await manager.profiles.contains(where: { $0.id == profile.id }) else { return }
        await refresh()
    }

    private func take(_ update: TunnelStatusUpdate, of profile: TunnelProfile) {
        let before = statuses.updateValue(update, forKey: profile.id)
        if !update.status.isRunning { traffic[profile.id] = nil }
        // For a start that fails here, the caller of the start shows the alert.
        guard let error = update.error, !busy.contains(profile.id), before?.error != error else { return }
        let alert = AlertText("\(profile.name) has ended", error)
        if self.alert?.message != alert.message { self.alert = alert }
    }

    // MARK: - Profiles

    /// Installs a profile from the text of a wg-quick file; the system asks the user once.
    /// - Returns: Whether it is installed.
    @discardableResult
    public func add(wgQuick text: String, name: String) async -> Bool {
        isInstalling = true
        let isDone = await perform("The tunnel was not added") {
            guard screen != .unreadable else {
                throw TunnelError(
                    .storage, "the tunnels that are stored cannot be read", fix: "read them again before you add one")
            }
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: name)
            let server = parts.configuration.peers.first?.endpoint?.description ?? ""
            let profile = TunnelProfile(
                name: name, provider: "wireguard", serverAddress: server,
                configuration: try JSONValue(encoding: parts.configuration))
            try await manager.create(profile, secrets: parts.secrets)
        }
        await refresh()
        isInstalling = false
        return isDone
    }

    /// The form to edit a profile with; nil, and an alert, when its configuration cannot be read.
    public func form(of profile: TunnelProfile) -> ProfileForm? {
        do throws(TunnelError) {
            return try ProfileForm(profile)
        } catch {
            alert = AlertText("\(profile.name) cannot be edited", error)
            return nil
        }
    }

    /// Saves the edited profile. A running tunnel applies the changes without going down.
    /// - Returns: Whether it was saved.
    public func save(_ form: ProfileForm, of profile: TunnelProfile) async -> Bool {
        let isDone = await work(on: profile, "\(profile.name) was not saved") {
            let changed = try form.applied(to: await manager.profile(profile.id))
            try await manager.update(changed.profile, secrets: changed.secrets)
            // A new key is for the next start.
            guard await manager.status(profile.id).status == .connected, changed.secrets.isEmpty else { return }
            await perform("\(changed.profile.name) was saved, and takes effect at the next start") {
                let configuration: WireGuardTunnelConfiguration = try changed.profile.configuration.decode()
                _ = try await manager.send(
                    ReconfigureRequest(configuration: configuration), to: profile.id, timeout: .seconds(30))
            }
        }
        await refresh()
        return isDone
    }

    /// Whether the tunnel starts by itself: by the profile's rules, or on any network if it has none.
    public func setOnDemand(_ isOn: Bool, of profile: TunnelProfile) async {
        await work(on: profile, "\(profile.name) was not changed") {
            var profile = profile
            if isOn, profile.onDemand.rules.isEmpty { profile.onDemand = .always }
            profile.isOnDemandEnabled = isOn
            try await manager.update(profile)
        }
        await refresh()
    }

    /// Removes the profile that the user has confirmed, and its secrets.
    public func remove() async {
        guard let profile = removal else { return }
        removal = nil
        await work(on: profile, "\(profile.name) was not removed") {
            try await manager.remove(profile.id)
            followers.removeValue(forKey: profile.id)?.cancel()
            (statuses[profile.id], traffic[profile.id]) = (nil, nil)
        }
        await refresh()
    }

    /// Removes a profile that cannot be read, and its secrets, which the user has confirmed.
    public func remove(_ unreadable: UnreadableProfile) async {
        if await perform("\(unreadable.name) was not removed", { try await manager.remove(unreadable.id) }) {
            await load()
        }
    }

    // MARK: - Tunnels

    /// Stops the tunnel of a profile that cannot be read.
    public func stop(_ unreadable: UnreadableProfile) async {
        await perform("\(unreadable.name) did not stop") { try await manager.stop(unreadable.id) }
    }

    /// Starts the tunnel, or stops it when it is up or the last tap has started it. A tunnel that is switched off does not start
    /// on demand any longer.
    public func toggle(_ profile: TunnelProfile) async {
        let id = profile.id
        let isOn = await taps.turnsOn(id)
        await work(on: profile, "\(profile.name) did not \(isOn ? "start" : "stop")") {
            try await taps.set(isOn, id) { statuses[id] = $0 }
        }
        await refresh()
    }

    /// Follows a tunnel's traffic until the calling task is cancelled: while it is shown.
    public func watch(_ profile: TunnelProfile) async {
        let monitor = TunnelMonitor(manager, profile.id, every: interval, asking: StatusRequest())
        for await event in monitor {
            if case .reply(let reply) = event { traffic[profile.id, default: Traffic()].take(reply, at: .now) }
        }
        traffic[profile.id] = nil
    }

    /// The tunnel's statistics, or `nil` while it is down.
    public func statistics(of profile: TunnelProfile) async -> StatusRequest.Reply? {
        try? await manager.send(StatusRequest(), to: profile.id)
    }

    @discardableResult
    private func work(on profile: TunnelProfile, _ title: String, _ body: () async throws -> Void) async -> Bool {
        busy.insert(profile.id)
        workCounts[profile.id, default: 0] += 1
        defer {
            workCounts[profile.id, default: 1] -= 1
            if workCounts[profile.id] == 0 { busy.remove(profile.id) }
        }
        return await perform(title, body)
    }

    @discardableResult
    private func perform(_ title: String, _ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return true
        } catch {
            alert = AlertText(title, error)
            return false
        }
    }
}
