// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

/// The keys of one tunnel, for as long as it runs.
struct TunnelSecrets: Sendable {
    var privateKey: PrivateKey
    var presharedKeys: [PublicKey: PresharedKey] = [:]

    /// Reads the secrets that `configuration` names.
    static func read(
        for configuration: WireGuardTunnelConfiguration, from context: ProviderContext
    ) async throws(TunnelError) -> TunnelSecrets {
        let name = configuration.privateKeyName
        guard let bytes = keyBytes(try await context.secret(name)), let key = PrivateKey(bytes: bytes), !key.isZero
        else { throw malformed(name) }
        var secrets = TunnelSecrets(privateKey: key)
        for parsed in configuration.parsedPeers {
            guard let name = parsed.peer.presharedKeyName else { continue }
            guard let bytes = keyBytes(try await context.secret(name)), let key = PresharedKey(bytes: bytes) else {
                throw malformed(name)
            }
            secrets.presharedKeys[parsed.key] = key
        }
        return secrets
    }

    /// The 32 bytes of a key, which is kept as they are or as base64 with white space around it.
    private static func keyBytes(_ secret: SecretBytes) -> [UInt8]? {
        let bytes = secret.bytes
        if bytes.count == 32 { return bytes }
        let text = bytes.filter { $0 > 32 }
        guard text.count == 44 else { return nil }
        return PrivateKey(base64: String(decoding: text, as: UTF8.self))?.secret.withSpan { span in
            span.indices.map { span[$0] }
        }
    }

    private static func malformed(_ name: String) -> TunnelError {
        TunnelError(
            .secretUnavailable, "the secret '\(name)' is no WireGuard key",
            fix: "store 32 bytes, or their base64 in 44 characters")
    }
}
