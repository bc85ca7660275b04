// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import CredentialTunnel
public import Observation
public import PacketTunnel
import PacketTunnelApple

/// The page of a tunnel with a login, with the form of its details.
@MainActor @Observable
public final class LoginModel: TunnelPage {
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

    /// The contents of the form.
    public var details = Details()

    /// The text of the screen without a profile.
    public static let welcome = """
        Connect with the user name and password that your administrator gave you. The system asks once whether this app \
        may add a VPN configuration.
        """

    /// Whether the tunnel was up at the last update that did not end it.
    private var wasUp = false
    /// Whether the server ended the tunnel because of the login, so that another password starts it again.
    private var awaitsPassword = false

    /// The manager for this app: tunnels in the login extension on a device, in the app itself on a simulator.
    public static func makeManager() -> TunnelManager {
        TunnelManager.default(.app(extension: "login", adopt: FormerConfiguration.readBestVPN)) {
            CredentialTunnelProvider()
        }
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

    /// Installs the profile that the form describes.
    public func install() async {
        await install {
            let configuration = CredentialTunnelConfiguration(
                server: details.server, serverKey: details.serverKey, login: details.login)
            try Self.check(configuration)
            var profile = TunnelProfile(
                name: "Login tunnel", provider: "credential", serverAddress: details.server,
                configuration: try JSONValue(encoding: configuration))
            // The system's VPN settings show it.
            profile.userName = details.login
            return (profile, secrets(of: configuration))
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

    /// Starts the tunnel, or stops it when it is up. A new password that is saved later does not start it.
    public override func toggle() async {
        awaitsPassword = false
        await super.toggle()
    }

    private func reconnect() async {
        await perform("The changes are saved, but the tunnel did not start") {
            guard let profile else { return }
            awaitsPassword = false
            try await restart(profile.id)
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

    /// Removes the secrets from the form, even if the save failed.
    private func forgetSecrets() { (details.password, details.presharedKey) = ("", "") }

    /// The tunnel's statistics, or `nil` while it is down.
    public func statistics() async -> CredentialStatusRequest.Reply? {
        guard let profile else { return nil }
        return try? await manager.send(CredentialStatusRequest(), to: profile.id)
    }

    override func profileChanged() {
        details = Details()
        guard let configuration: CredentialTunnelConfiguration = try? profile?.configuration.decode() else { return }
        details.server = configuration.server
        details.serverKey = configuration.serverKey
        details.login = configuration.login
    }

    override func followingChanged() { (wasUp, awaitsPassword) = (false, false) }

    /// Shows an alert if the tunnel has ended by itself: it was up, and nothing in this app stopped it.
    override func statusChanged(_ update: TunnelStatusUpdate) {
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
}
