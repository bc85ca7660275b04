// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Observation
public import PacketTunnel

/// The state and actions that the pages with one tunnel share: its profile, its status, its switch, its removal.
@MainActor @Observable
public class TunnelPage {
    /// The profile, or `nil` if none is installed.
    public private(set) var profile: TunnelProfile?
    /// The status of the tunnel.
    public private(set) var status = TunnelStatusUpdate(.disconnected)
    /// The alert to show; `nil` if there is none.
    public var alert: AlertText?
    /// Whether profiles have been read.
    public private(set) var isLoaded = false
    /// Whether no profile is shown and a stored or former one could not be read. The form would then install a second one.
    public var isUnreadable: Bool { profile == nil && (loadFailed || !unreadable.isEmpty) }
    /// The stored profiles that cannot be read: they can be stopped and removed.
    public private(set) var unreadable: [UnreadableProfile] = []
    /// Whether an operation is in progress, which the spinner shows.
    public private(set) var isBusy = false
    /// Whether the app asks the user to confirm the removal of the profile.
    public var isConfirmingRemoval = false

    /// Whether the last load failed, or could not adopt a former configuration.
    private var loadFailed = false
    let manager: TunnelManager
    private let taps: SwitchTaps
    private var follower: Task<Void, Never>?
    /// The number of operations under way.
    private var workCount = 0

    /// Creates a page over `manager`.
    public init(_ manager: TunnelManager) {
        self.manager = manager
        taps = SwitchTaps(manager)
    }

    /// Whether an alert is shown; setting it to `false` closes it.
    public var isAlerting: Bool {
        get { alert != nil }
        set { if !newValue { alert = nil } }
    }

    /// Loads the saved profile and follows its changes.
    public func load() async {
        let isRead = await perform("The tunnel cannot be read") { try await manager.loadAndTidy() }
        let unreadable = await manager.unreadableProfiles
        if isRead, let error = unreadable.first?.error { alert = AlertText("The tunnel cannot be read", error) }
        await refresh()
        (self.unreadable, loadFailed) = (unreadable, !isRead)
        isLoaded = true
    }

    /// Stops the tunnel of a profile that cannot be read.
    public func stop(_ unreadable: UnreadableProfile) async {
        await perform("The tunnel was not stopped") { try await manager.stop(unreadable.id) }
    }

    /// Removes a profile that cannot be read, and its secrets, after the user has confirmed it.
    public func remove(_ unreadable: UnreadableProfile) async {
        if await perform("The tunnel was not removed", { try await manager.remove(unreadable.id) }) { await load() }
    }

    /// Starts the tunnel, or stops it when it is up.
    public func toggle() async {
        await perform("That did not work") {
            guard let profile else { return }
            let isOn = await taps.turnsOn(profile.id)
            try await taps.set(isOn, profile.id) { status = $0 }
        }
        await refresh()
    }

    /// Removes the profile and its secrets, which the user has confirmed.
    public func remove() async {
        isConfirmingRemoval = false
        await perform("The tunnel was not removed") { if let profile { try await manager.remove(profile.id) } }
        unreadable = await manager.unreadableProfiles
        await refresh()
    }

    // MARK: - For the pages

    /// Creates the profile that `make` describes, unless one is stored that cannot be read.
    func install(_ make: () throws -> (TunnelProfile, [String: SecretBytes])) async {
        await perform("The tunnel was not installed") {
            guard !isUnreadable else {
                throw TunnelError(
                    .storage, "the tunnel that is stored cannot be read",
                    fix: "read it again, or remove it, before you install one")
            }
            let (profile, secrets) = try make()
            try await manager.create(profile, secrets: secrets)
        }
    }

    /// Stops the tunnel if it is up, and starts it with its saved settings.
    func restart(_ id: String) async throws { try await taps.restart(id) { status = $0 } }

    /// Called when the profile has changed, before the page follows its status.
    func profileChanged() {}

    /// Called before the page follows another profile, or none.
    func followingChanged() {}

    /// Called with each status of the tunnel.
    func statusChanged(_ update: TunnelStatusUpdate) {}

    /// Shows the profile that is stored now, and follows its status.
    func refresh() async {
        let present = await manager.profiles.first
        guard present != profile || present != nil && follower == nil else { return }
        let isOther = present?.id != profile?.id || follower == nil
        if present != profile {
            profile = present
            profileChanged()
        }
        guard isOther else { return }
        follower?.cancel()
        follower = nil
        status = TunnelStatusUpdate(.disconnected)
        followingChanged()
        guard let present else { return }
        let updates = await manager.statusUpdates(present.id)
        guard follower == nil, profile?.id == present.id else { return }
        follower = Task { [weak self] in
            for await update in updates {
                self?.status = update
                self?.statusChanged(update)
            }
            guard !Task.isCancelled else { return }
            await self?.followAgain(present)
        }
    }

    /// Follows a profile again: its updates end when the manager forgets it.
    private func followAgain(_ profile: TunnelProfile) async {
        follower = nil
        guard await manager.profiles.contains(where: { $0.id == profile.id }) else { return }
        await refresh()
    }

    /// Carries out an operation: the spinner shows it, and an alert its error.
    /// - Returns: Whether it succeeded.
    @discardableResult
    func perform(_ title: String, _ body: () async throws -> Void) async -> Bool {
        workCount += 1
        isBusy = true
        defer {
            workCount -= 1
            isBusy = workCount > 0
        }
        do {
            try await body()
            return true
        } catch {
            alert = AlertText(title, error)
            return false
        }
    }
}
