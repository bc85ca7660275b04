// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Observation
public import PacketTunnel
import PacketTunnelApple
public import Provisioning

/// The state and actions of the page of a tunnel that `addKey` assigns: one profile, its registration, its switch.
@MainActor @Observable
public final class AddKeyModel {
    /// The input of the form.
    public struct Details: Equatable, Sendable {
        /// The server's IP address.
        public var serverAddress = ""
        /// The common name in the server's certificate.
        public var commonName = ""
        /// The certificate of the servers' authority, as PEM.
        public var authority = ""
        /// The account's token. It is never shown, and does not stay in the form.
        public var token = ""
        /// The address to ping through the tunnel; empty requests a handshake instead.
        public var pingAddress = ""

        /// An empty form.
        public init() {}

        /// The dictionary that an app with PIA's library has in its `providerConfiguration`.
        public var providerConfiguration: [String: Any] {
            var values: [String: Any] = [
                "token": token, "use_ip": true, "cn": commonName, "customDNSServers": [String](), "packetSize": 1280,
            ]
            if !pingAddress.isEmpty { values["ping"] = pingAddress }
            return values
        }
    }

    /// The profile, or `nil` if none is installed.
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
    /// Whether an operation is in progress, which the spinner shows.
    public private(set) var isBusy = false
    /// Whether the app asks the user to confirm the removal of the profile.
    public var isConfirmingRemoval = false

    private let manager: TunnelManager
    private let taps: SwitchTaps
    private var follower: Task<Void, Never>?
    /// The number of operations under way.
    private var workCount = 0

    /// Creates a model over `manager`.
    public init(_ manager: TunnelManager) {
        self.manager = manager
        taps = SwitchTaps(manager)
    }

    /// The manager for this app. A simulator has no extension with a transport, so tunnels do not start there.
    /// - Parameter authority: The certificate of the servers' authority, as PEM, for an adopted configuration.
    public static func makeManager(
        authority: String? = FormerConfiguration.authority
    ) -> TunnelManager {
        let options = NetworkExtensionManagerOptions.app(extension: "addkey") {
            try FormerConfiguration.readPIA($0, authority: authority)
        }
        return TunnelManager.default(options) { AddKeyTunnelProvider() }
    }

    /// Whether an alert is shown; setting it to `false` closes it.
    public var isAlerting: Bool {
        get { alert != nil }
        set { if !newValue { alert = nil } }
    }

    /// Loads the saved profile and follows its status.
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

    /// Removes a profile that cannot be read, and its token, which the user has confirmed. The form can then install another.
    public func remove(_ unreadable: UnreadableProfile) async {
        if await perform("The tunnel was not removed", { try await manager.remove(unreadable.id) }) { await load() }
    }

    /// Installs the profile that the form describes.
    public func install() async {
        await install(
            details.providerConfiguration, serverAddress: details.serverAddress, authority: details.authority)
        // A token does not stay in memory, whether it was saved or not.
        details.token = ""
    }

    /// Installs a profile from the configuration of an app with PIA's library. The token is stored in the keychain, and the
    /// rest in the profile.
    public func install(_ values: [String: Any], serverAddress: String, authority: String) async {
        await perform("The tunnel was not installed") {
            guard isLoaded, !isUnreadable else {
                throw TunnelError(
                    .storage, "the tunnel that is stored cannot be read", fix: "read it again, or remove it")
            }
            let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
                values, serverAddress: serverAddress, trust: .authorities(authority, acceptsCommonName: true))
            let profile = try TunnelProfile(
                name: "addKey tunnel", provider: "add-key", serverAddress: serverAddress, encoding: configuration)
            try await manager.create(profile, secrets: [configuration.tokenName: token])
        }
        await refresh()
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

    /// Removes the profile and its token, which the user has confirmed.
    public func remove() async {
        isConfirmingRemoval = false
        await perform("The tunnel was not removed") { if let profile { try await manager.remove(profile.id) } }
        await refresh()
    }

    /// The registration of the running tunnel, or `nil` while it is down.
    public func registration() async -> AddKeyStatusRequest.Reply? {
        guard let profile else { return nil }
        return try? await manager.send(AddKeyStatusRequest(), to: profile.id)
    }

    private func refresh() async {
        let present = await manager.profiles.first
        guard present?.id != profile?.id || follower == nil else {
            profile = present
            return
        }
        profile = present
        follower?.cancel()
        follower = nil
        status = TunnelStatusUpdate(.disconnected)
        guard let present else { return }
        let updates = await manager.statusUpdates(present.id)
        guard follower == nil, profile?.id == present.id else { return }
        follower = Task { [weak self] in
            for await update in updates { self?.status = update }
            // The updates end when the manager forgets the profile.
            if !Task.isCancelled { self?.follower = nil }
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
