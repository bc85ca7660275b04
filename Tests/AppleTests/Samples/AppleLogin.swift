// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnelApple

// docs/login-tunnel.md
private enum Login {
    final class Tunnel: NetworkExtensionHost<CredentialTunnelProvider>, @unchecked Sendable {
        override var options: NetworkExtensionOptions { .standard(accessGroup: "TEAMID.com.example.tunnel") }
    }
}
