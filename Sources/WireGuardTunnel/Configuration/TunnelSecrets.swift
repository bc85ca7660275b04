// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

/// The keys of one tunnel, for as long as it runs.
struct TunnelSecrets: Sendable {
    /// Nil where it comes later.
    var privateKey: PrivateKey?
    var presharedKeys: [PublicKey: PresharedKey] = [:]

    /// Reads the secrets that `configuration` names.
    static func read(
        for configuration: WireGuardTunnelConfiguration, from context: ProviderContext
    ) async throws(TunnelError) -> TunnelSecrets {
        var secrets = TunnelSecrets()
        if !configuration.privateKeyComesLater {
            let name = configuration.privateKeyName
            guard let key = PrivateKey(stored: try await context.secret(name).bytes), !key.isZero else {
                throw malformed(name)
            }
            secrets.privateKey = key
        }
        for parsed in configuration.parsedPeers {
            guard let name = parsed.peer.presharedKeyName else { continue }
            guard let key = PresharedKey(stored: try await context.secret(name).bytes) else {
                throw malformed(name)
            }
            secrets.presharedKeys[parsed.key] = key
        }
        return secrets
    }

    private static func malformed(_ name: String) -> TunnelError {
        TunnelError(
            .secretUnavailable, "the secret '\(name)' is no WireGuard key",
            fix: "store 32 bytes, or their base64 in 44 characters")
    }
}
