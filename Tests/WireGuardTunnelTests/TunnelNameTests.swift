// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardTunnel

@Suite("Tunnel names")
struct TunnelNameTests {
    @Test("the provider has a name for logs")
    func provider() {
        #expect(TunnelName.provider == "wireguard")
    }
}
