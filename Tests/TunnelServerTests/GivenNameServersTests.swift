// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelServer

@Suite struct GivenNameServersTests {
    private func given(_ servers: [String], host: String?, resolved: String? = nil) throws -> [String] {
        GivenNameServers.reachable(try servers.map { try IPAddress($0) }, host: host, resolved: resolved).map(
            \.description)
    }

    @Test("A loopback resolver is replaced by its upstreams, in its place")
    func replaces() throws {
        let resolved =
            "# made by systemd-resolved\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch example.com\n"
        #expect(
            try given(["127.0.0.53", "9.9.9.9"], host: "nameserver 127.0.0.53\noptions edns0\n", resolved: resolved)
                == ["192.0.2.53", "2001:db8::53", "9.9.9.9"])
        // The file of a host without such a resolver names them itself.
        #expect(
            try given(["127.0.0.1"], host: "nameserver 198.51.100.1\n", resolved: resolved) == ["198.51.100.1"])
    }

    @Test("Servers that clients can reach are unchanged, each once")
    func keeps() throws {
        #expect(try given(["9.9.9.9", "10.66.0.1", "9.9.9.9"], host: nil) == ["9.9.9.9", "10.66.0.1"])
        #expect(
            try given(["9.9.9.9", "::1"], host: "nameserver 9.9.9.9\nnameserver 9.9.9.9\n") == ["9.9.9.9"])
    }

    @Test("Upstreams that only the host can reach are excluded")
    func nearby() throws {
        let text =
            "nameserver 127.0.0.1\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver fe80::1\nnameserver nonsense\n"
        #expect(try given(["127.0.0.1"], host: text, resolved: nil).isEmpty)
        #expect(try given(["127.0.0.1"], host: text, resolved: "nameserver 192.0.2.1\n") == ["192.0.2.1"])
        #expect(try given(["127.0.0.1"], host: nil).isEmpty)
    }
}
