// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardCore

extension WireGuardTunnelConfiguration {
    /// Returns the configuration of a run: with the keys of the secrets that it names, and with the host's mark if the host
    /// has one.
    /// - Throws: `.secretUnavailable`.
    func completed(by context: ProviderContext) async throws(TunnelError) -> WireGuardTunnelConfiguration {
        var complete = self
        complete.tunnel.interface.privateKey = nil
        if !privateKeyComesLater {
            guard let key = PrivateKey(stored: try await context.secret(privateKeyName).bytes), !key.isZero else {
                throw Self.malformed(privateKeyName)
            }
            complete.tunnel.interface.privateKey = key
        }
        for (index, peer) in peers.enumerated() {
            var key: PresharedKey?
            if let name = presharedKeyNames[peer.publicKey] {
                key = PresharedKey(stored: try await context.secret(name).bytes)
                guard key != nil else { throw Self.malformed(name) }
            }
            complete.tunnel.peers[index].presharedKey = key
            complete.tunnel.peers[index].normalize()
        }
        complete.fwMark = context.socketMark ?? fwMark
        return complete
    }

    private static func malformed(_ name: String) -> TunnelError {
        TunnelError(
            .secretUnavailable, "the secret '\(name)' is not a WireGuard key",
            fix: "store 32 bytes, or their base64 in 44 characters")
    }
}
