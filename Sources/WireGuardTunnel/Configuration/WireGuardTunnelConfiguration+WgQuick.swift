// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import WireGuardCore

/// The result of importing a wg-quick file: a configuration for a profile, and the secrets for its secret store.
public struct WgQuickImport: Sendable {
    /// The configuration, which names the secrets.
    public var configuration: WireGuardTunnelConfiguration
    /// The secrets by name: 32 bytes each.
    public var secrets: [String: SecretBytes]
    /// Keys of the file that a provider ignores: hooks, `SaveConfig`, and a `Table` by name.
    ///
    /// A `Table` by number is not ignored: it becomes the configuration's ``WireGuardTunnelConfiguration/routeTable``, which
    /// only the code that creates the host can apply. If it is not applied, as on Apple platforms, warn the user about it
    /// too.
    public var ignoredKeys: [String]
    /// Settings of the file that are valid but may be mistakes.
    public var warnings: [ConfigurationError]
    /// The file's `[Interface]`, with its commands.
    package var interface: InterfaceConfiguration
}

extension WireGuardTunnelConfiguration {
    /// Splits a wg-quick file into a configuration and its secrets.
    /// - Parameters:
    ///   - text: the contents of the file.
    ///   - name: the file's name, for errors.
    /// - Throws: all problems of the file, by line.
    public static func split(
        wgQuick text: String, name: String = "configuration"
    ) throws(ConfigurationErrors) -> WgQuickImport {
        try split(wgQuick: Array(text.utf8), name: name, runsHooks: false)
    }

    /// Splits the bytes of a wg-quick file, for a caller that may run the file's commands.
    /// - Parameter runsHooks: whether `PostUp` may set the private key.
    package static func split(
        wgQuick bytes: [UInt8], name: String, runsHooks: Bool
    ) throws(ConfigurationErrors) -> WgQuickImport {
        let report = TunnelConfiguration.check(
            bytes, name: name, privateKey: runsHooks ? .requiredWithoutPostUp : .required)
        let parsed = try report.checked()
        var result = WgQuickImport(
            configuration: WireGuardTunnelConfiguration(addresses: [], peers: []), secrets: [:], ignoredKeys: [],
            warnings: report.warnings, interface: parsed.interface)
        result.configuration.privateKeyComesLater = parsed.interface.privateKey == nil
        result.configuration.tunnel = parsed
        result.moveSecrets()
        result.moveCommands()
        return result
    }
}

extension WgQuickImport {
    /// Moves the keys from the configuration to ``secrets``.
    fileprivate mutating func moveSecrets() {
        var tunnel = configuration.tunnel
        if let key = tunnel.interface.privateKey { secrets[configuration.privateKeyName] = SecretBytes(key.secret) }
        tunnel.interface.privateKey = nil
        interface.privateKey = nil
        for (index, peer) in tunnel.peers.enumerated() {
            if let key = peer.presharedKey, !key.isZero {
                let name = "preshared-key-\(index + 1)"
                configuration.presharedKeyNames[peer.publicKey] = name
                secrets[name] = SecretBytes(key.secret)
            }
            tunnel.peers[index].presharedKey = nil
            tunnel.peers[index].normalize()
        }
        configuration.tunnel = tunnel
    }

    /// Removes commands and other parts that only ``interface`` keeps from the configuration.
    fileprivate mutating func moveCommands() {
        if case .named = interface.table {
            ignoredKeys.append("Table")
            configuration.tunnel.interface.table = .automatic
        }
        let commands: [(String, WritableKeyPath<InterfaceConfiguration, [String]>)] = [
            ("PreUp", \.preUp), ("PostUp", \.postUp), ("PreDown", \.preDown), ("PostDown", \.postDown),
        ]
        for (key, path) in commands where !interface[keyPath: path].isEmpty {
            ignoredKeys.append(key)
            configuration.tunnel.interface[keyPath: path] = []
        }
        if interface.saveConfig { ignoredKeys.append("SaveConfig") }
        configuration.tunnel.interface.saveConfig = false
    }
}

extension SecretBytes {
    /// The bytes of a key, for a secret store.
    package convenience init(_ key: Secret) {
        self.init(key.withSpan { span in span.indices.map { span[$0] } })
    }
}
