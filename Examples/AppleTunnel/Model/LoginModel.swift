// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import CredentialTunnel
public import Observation
public import PacketTunnel
import PacketTunnelApple

/// The state and actions of the screens of a tunnel with a login: one profile, its details, its switch.
@MainActor @Observable
public final class LoginModel {
    /// The input of the profile's form.
    public struct Details: Equatable, Sendable {
        /// The server, as `host:port`.
        public var server = ""
        /// The server's public key.
        public var serverKey = ""
        /// The pre-shared key; empty leaves the one that is kept.
        public var presharedKey = ""
        /// The user's name.
        public var login = ""
        /// The password; empty leaves the one that is kept. It is never shown.
        public var password = ""

        /// An empty form.
        public init() {}
    }

    /// The profile; nil before there is one.
    public private(set) var profile: TunnelProfile?
    /// The contents of the form.
    public var details = Details()
    /// The status of the tunnel.
    public private(set) var status = TunnelStatusUpdate(.disconnected)
    /// The alert to show; `nil` if there is none.
    public var alert: AlertText?
    /// Whether profiles have been read.
    public private(set) var isLoaded = false
    /// Whether a profile is stored that cannot be read: then the form would install a second one.
    public private(set) var isUnreadable = false
    /// The stored profiles that cannot be read: they can be stopped and removed.
    public private(set) var unreadable: [UnreadableProfile] = []
    /// Whether an operation runs, which the spinner shows.
    public private(set) var isBusy = false
    /// Whether the app asks the user to confirm the removal of the profile.
    public var isConfirmingRemoval = false

    /// The text of the screen without a profile.
    public static let welcome = """
        Connect with the user name and password that your administrator gave you. The system asks once whether this app \
        may add a VPN configuration.
        """

    private let manager: TunnelManager
    private let taps: SwitchTaps
    /// Whether the tunnel was up at the last update that did not end it.
    private var wasUp = false
    /// Whether the server ended the tunnel because of the login, so that another password starts it again.
    private var awaitsPassword = false
    private var follower: Task<Void, Never>?
    /// The number of operations under way.
    private var workCount = 0

    /// A model over `manager`.
    public init(_ manager: TunnelManager) {
        self.manager = manager
        taps = SwitchTaps(manager)
    }

    /// The manager for this app: tunnels in the login extension on a device, in the app itself on a simulator.
    public static func makeManager() -> TunnelManager {
        TunnelManager.default(.app(extension: "login", adopt: FormerConfiguration.readBestVPN)) {
            CredentialTunnelProvider()
        }
    }

    /// Whether an alert is shown; setting it to `false` closes it.
    public var isAlerting: Bool {
        get { alert != nil }
        set { if !newValue { alert = nil } }
    }

    /// Whether the profile is enabled. A disabled tunnel cannot be started.
    public var isEnabled: Bool { profile?.isEnabled ?? false }

    /// The status in a word, as the details show it.
    public var statusText: String {
        switch status.status {
        case .connected: "Connected"
        case .connecting: "Connecting"
        case .reasserting: "Reconnecting"
        case .disconnecting: "Disconnecting"
        case .invalid: "Invalid"
        case .blocked: "Blocked"
        case .disconnected: "Disconnected"
        }
    }

    /// Loads the saved profile and follows its changes.
    public func load() async {
        let isRead = await perform("The tunnel cannot be read") { try await manager.loadAndTidy() }
        unreadable = await manager.unreadableProfiles
        if isRead, let error = unreadable.first?.error { alert = AlertText("The tunnel cannot be read", error) }
        await refresh()
        isUnreadable = (!isRead || !unreadable.isEmpty) && profile == nil
        isLoaded = true
    }

    /// Stops the tunnel of a profile that cannot be read.
    public func stop(_ unreadable: UnreadableProfile) async {
        await perform("The tunnel was not stopped") { try await manager.stop(unreadable.id) }
    }

    /// Removes a profile that cannot be read, and its secrets, which the user has confirmed.
    public func remove(_ unreadable: UnreadableProfile) async {
        if await perform("The tunnel was not removed", { try await manager.remove(unreadable.id) }) { await load() }
    }

    /// Installs the profile that the form describes.
    public func install() async {
        await perform("The tunnel was not installed") {
            guard !isUnreadable else {
                throw TunnelError(
                    .storage, "the tunnel that is stored cannot be read",
                    fix: "read it again, or remove it, before you install one")
            }
            let configuration = CredentialTunnelConfiguration(
                server: details.server, serverKey: details.serverKey, login: details.login)
            try Self.check(configuration)
            var profile = TunnelProfile(
                name: "Login tunnel", provider: "credential", serverAddress: details.server,
                configuration: try JSONValue(encoding: configuration))
            // The system's VPN settings show it.
            profile.userName = details.login
            try await manager.create(profile, secrets: secrets(of: configuration))
        }
        forgetSecrets()
        await refresh()
    }

    /// Saves the changes in the form. A running tunnel reconnects with them. A tunnel that the server ended because of
    /// the password starts with the new one.
    public func save() async {
        var reconnects = false
        let isSaved = await perform("The tunnel was not saved") {
            guard var profile else { return }
            let former: CredentialTunnelConfiguration = try profile.configuration.decode()
            var configuration = former
            configuration.server = details.server
            configuration.serverKey = details.serverKey
            configuration.login = details.login
            try Self.check(configuration)
            profile.serverAddress = details.server
            profile.userName = details.login
            profile.configuration = try JSONValue(encoding: configuration)
            let secrets = secrets(of: configuration)
            try await manager.update(profile, secrets: secrets.mapValues { $0 })
            let isActive = await manager.status(profile.id).status.isActive
            let isChanged = configuration != former || !secrets.isEmpty
            let hasNewPassword = secrets[configuration.passwordName] != nil
            reconnects = profile.isEnabled && (isActive && isChanged || awaitsPassword && hasNewPassword)
        }
        forgetSecrets()
        await refresh()
        if isSaved, reconnects { await reconnect() }
    }

    private func reconnect() async {
        await perform("The changes are saved, but the tunnel did not start") {
            guard let profile else { return }
            awaitsPassword = false
            try await taps.restart(profile.id) { status = $0 }
        }
        await refresh()
    }

    /// Enables or disables the profile. A disabled tunnel is stopped, and cannot be started.
    public func setEnabled(_ isOn: Bool) async {
        await perform("The tunnel was not changed") {
            guard var profile, profile.isEnabled != isOn else { return }
            profile.isEnabled = isOn
            try await manager.update(profile)
            if !isOn { try await manager.stop(profile.id) }
        }
        await refresh()
    }

    /// A secret does not stay in memory after it was saved, or was not.
    private func forgetSecrets() { (details.password, details.presharedKey) = ("", "") }

    /// Starts the tunnel, or stops it when it is up.
    public func toggle() async {
        await perform("That did not work") {
            guard let profile else { return }
            awaitsPassword = false
            let isOn = await taps.turnsOn(profile.id)
            try await taps.set(isOn, profile.id) { status = $0 }
        }
        await refresh()
    }

    /// Removes the profile and its secrets, which the user has confirmed.
    public func remove() async {
        isConfirmingRemoval = false
        await perform("The tunnel was not removed") { if let profile { try await manager.remove(profile.id) } }
        await refresh()
    }

    /// The tunnel's statistics, or `nil` while it is down.
    public func statistics() async -> CredentialStatusRequest.Reply? {
        guard let profile else { return nil }
        return try? await manager.send(CredentialStatusRequest(), to: profile.id)
    }

    private func refresh() async {
        let present = await manager.profiles.first
        guard present != profile || present != nil && follower == nil else { return }
        let isOther = present?.id != profile?.id || follower == nil
        if present != profile {
            profile = present
            details = Details()
            if let present, let configuration: CredentialTunnelConfiguration = try? present.configuration.decode() {
                details.server = configuration.server
                details.serverKey = configuration.serverKey
                details.login = configuration.login
            }
        }
        guard isOther else { return }
        follower?.cancel()
        follower = nil
        (status, wasUp, awaitsPassword) = (TunnelStatusUpdate(.disconnected), false, false)
        guard let present else { return }
        let updates = await manager.statusUpdates(present.id)
        guard follower == nil, profile?.id == present.id else { return }
        follower = Task { [weak self] in
            for await update in updates { self?.follow(update) }
            guard !Task.isCancelled else { return }
            await self?.followAgain(present)
        }
    }

    /// Shows a status, and an alert if the tunnel has ended by itself: it was up, and nothing in this app stopped it.
    private func follow(_ update: TunnelStatusUpdate) {
        status = update
        switch update.status {
        case .connected, .reasserting: wasUp = true
        case .connecting: wasUp = false
        case .disconnected, .blocked, .invalid:
            defer { wasUp = false }
            guard wasUp, let error = update.error else { return }
            awaitsPassword = [.sessionTerminated, .authenticationFailed].contains(error.code)
            alert = AlertText("The tunnel has ended", error)
        case .disconnecting: break
        }
    }

    /// Follows a profile again: its updates end when the manager forgets it.
    private func followAgain(_ profile: TunnelProfile) async {
        follower = nil
        guard await manager.profiles.contains(where: { $0.id == profile.id }) else { return }
        await refresh()
    }

    private func secrets(of configuration: CredentialTunnelConfiguration) -> [String: SecretBytes] {
        var secrets: [String: SecretBytes] = [:]
        if !details.password.isEmpty {
            secrets[configuration.passwordName] = SecretBytes(Array(details.password.utf8))
        }
        if !details.presharedKey.isEmpty {
            secrets[configuration.presharedKeyName] = SecretBytes(Array(details.presharedKey.utf8))
        }
        return secrets
    }

    private static func check(_ configuration: CredentialTunnelConfiguration) throws(TunnelError) {
        let problems = configuration.validate()
        guard problems.isEmpty else {
            throw TunnelError(
                .configurationInvalid, "the profile cannot be used", fix: "correct the fields that are listed",
                problems: problems)
        }
    }

    @discardableResult
    private func perform(_ title: String, _ body: () async throws -> Void) async -> Bool {
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
