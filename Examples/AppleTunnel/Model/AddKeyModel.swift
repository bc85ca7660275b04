// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Observation
public import PacketTunnel
import PacketTunnelApple
public import Provisioning

/// The page of a tunnel that `addKey` assigns, with its form and its registration.
@MainActor @Observable
public final class AddKeyModel: TunnelPage {
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

    /// The contents of the form.
    public var details = Details()

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
        await install {
            let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
                values, serverAddress: serverAddress, trust: .authorities(authority, acceptsCommonName: true))
            let profile = try TunnelProfile(
                name: "addKey tunnel", provider: "add-key", serverAddress: serverAddress, encoding: configuration)
            return (profile, [configuration.tokenName: token])
        }
        await refresh()
    }

    /// The registration of the running tunnel, or `nil` while it is down.
    public func registration() async -> AddKeyStatusRequest.Reply? {
        guard let profile else { return nil }
        return try? await manager.send(AddKeyStatusRequest(), to: profile.id)
    }
}
