// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
public import WireGuardCore

/// A wg-quick file taken apart: what goes into a profile, and the secrets that go into its secret store.
public struct WgQuickImport: Sendable {
    /// The configuration, which names the secrets.
    public var configuration: WireGuardTunnelConfiguration
    /// The secrets by name: 32 bytes each.
    public var secrets: [String: SecretBytes]
    /// Keys of the file that a provider has no use for: hooks, `SaveConfig`, and a `Table` by name.
    ///
    /// A `Table` by number is not among them, but in the configuration's ``WireGuardTunnelConfiguration/routeTable``, which
    /// only who makes the host can carry out. Where that is not done, as on Apple's platforms, tell the user of it too.
    public var ignoredKeys: [String]
    /// What the file may not have been meant to say.
    public var warnings: [ConfigurationError]
    /// The file's `[Interface]`, with its commands.
    package var interface: InterfaceConfiguration
}

extension WireGuardTunnelConfiguration {
    /// Splits a wg-quick file into a configuration and its secrets.
    /// - Parameters:
    ///   - text: the contents of the file.
    ///   - name: the file's name, for errors.
    /// - Throws: everything that is wrong with the file, line by line.
    public static func split(
        wgQuick text: String, name: String = "configuration"
    ) throws(ConfigurationErrors) -> WgQuickImport {
        try split(wgQuick: text, name: name, runsHooks: false)
    }

    /// The same, for who runs the file's commands.
    /// - Parameter runsHooks: whether the private key may be left to `PostUp`.
    package static func split(
        wgQuick text: String, name: String, runsHooks: Bool
    ) throws(ConfigurationErrors) -> WgQuickImport {
        let report = TunnelConfiguration.check(
            Array(text.utf8), name: name, privateKey: runsHooks ? .requiredWithoutPostUp : .required)
        let parsed = try report.checked()
        var result = WgQuickImport(
            configuration: WireGuardTunnelConfiguration(addresses: [], peers: []), secrets: [:], ignoredKeys: [],
            warnings: report.warnings, interface: parsed.interface)
        result.configuration.privateKeyComesLater = parsed.interface.privateKey == nil
        result.take(parsed.interface)
        for (index, peer) in parsed.peers.enumerated() { result.take(peer, number: index) }
        return result
    }
}

extension WgQuickImport {
    fileprivate mutating func take(_ interface: InterfaceConfiguration) {
        if let key = interface.privateKey {
            secrets[configuration.privateKeyName] = key.secret.withSpan { span in
                SecretBytes(span.indices.map { span[$0] })
            }
        }
        configuration.addresses = interface.addresses
        if !interface.dnsServers.isEmpty || !interface.dnsSearchDomains.isEmpty {
            configuration.dns = DNSSettings(
                servers: interface.dnsServers, searchDomains: interface.dnsSearchDomains)
        }
        configuration.mtu = interface.mtu.map(Int.init)
        configuration.listenPort = interface.listenPort
        configuration.fwMark = interface.fwMark
        switch interface.table {
        case .automatic: break
        case .off: configuration.makesRoutes = false
        case .number(let table): configuration.routeTable = table
        case .named: ignoredKeys.append("Table")
        }
        let hooks = [
            ("PreUp", interface.preUp), ("PostUp", interface.postUp), ("PreDown", interface.preDown),
            ("PostDown", interface.postDown),
        ]
        ignoredKeys += hooks.filter { !$0.1.isEmpty }.map(\.0)
        if interface.saveConfig { ignoredKeys.append("SaveConfig") }
    }

    fileprivate mutating func take(_ peer: PeerConfiguration, number: Int) {
        var taken = WireGuardTunnelConfiguration.Peer(
            publicKey: peer.publicKey.base64, endpoint: peer.endpoint?.description,
            allowedIPs: peer.allowedIPs,
            persistentKeepalive: peer.persistentKeepalive ?? 0)
        if let key = peer.presharedKey, !key.isZero {
            let name = "preshared-key-\(number + 1)"
            taken.presharedKeyName = name
            secrets[name] = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        }
        configuration.peers.append(taken)
    }
}
