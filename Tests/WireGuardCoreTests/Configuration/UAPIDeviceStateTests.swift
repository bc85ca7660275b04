// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

@Suite("UAPI replies and requests as text")
struct UAPIDeviceStateTests {
    private static func state() throws -> UAPIDeviceState {
        var state = UAPIDeviceState()
        state.privateKey = Sample.privateKey(1)
        state.listenPort = 51820
        state.fwMark = 0xca6c
        var first = UAPIPeerState(publicKey: Sample.publicKey(3))
        first.presharedKey = Sample.presharedKey(2)
        first.endpoint = try Endpoint("[fe80::1%7]:51820")
        first.lastHandshake = UAPITimestamp(seconds: 1_700_000_000, nanoseconds: 999_999_999)
        first.transmittedBytes = .max
        first.receivedBytes = 1
        first.persistentKeepalive = 65535
        first.allowedIPs = [try IPPrefix("10.0.0.0/8"), try IPPrefix("::/0")]
        state.peers = [first, UAPIPeerState(publicKey: Sample.publicKey(4))]
        return state
    }

    @Test("A reply has the lines of wireguard-go in its order")
    func text() throws {
        var text: [UInt8] = []
        try UAPIDeviceStateTests.state().appendReply(to: &text)
        #expect(
            String(decoding: text, as: UTF8.self) == """
                private_key=\(Sample.hex(1))
                listen_port=51820
                fwmark=51820
                public_key=\(Sample.hex(3))
                preshared_key=\(Sample.hex(2))
                protocol_version=1
                endpoint=[fe80::1%7]:51820
                last_handshake_time_sec=1700000000
                last_handshake_time_nsec=999999999
                tx_bytes=18446744073709551615
                rx_bytes=1
                persistent_keepalive_interval=65535
                allowed_ip=10.0.0.0/8
                allowed_ip=::/0
                public_key=\(Sample.hex(4))
                preshared_key=\(String(repeating: "0", count: 64))
                protocol_version=1
                last_handshake_time_sec=0
                last_handshake_time_nsec=0
                tx_bytes=0
                rx_bytes=0
                persistent_keepalive_interval=0
                errno=0


                """)
    }

    @Test("A reply reads back as the state it was written from")
    func roundTrip() throws {
        let state = try UAPIDeviceStateTests.state()
        var text: [UInt8] = []
        state.appendReply(to: &text)
        #expect(try UAPIDeviceState(reply: text) == state)
        var empty: [UInt8] = []
        UAPIDeviceState().appendReply(to: &empty)
        #expect(empty == Array("errno=0\n\n".utf8))
        #expect(try UAPIDeviceState(reply: empty) == UAPIDeviceState())
    }

    @Test("Keys that are not known are skipped, as wg skips them")
    func unknownKeys() throws {
        let text = "new=1\nlisten_port=5\npublic_key=\(Sample.hex(3))\nnewer=x\nrx_bytes=7\nerrno=0\n\n"
        let state = try UAPIDeviceState(reply: Array(text.utf8))
        #expect(state.listenPort == 5)
        #expect(state.peers.first?.receivedBytes == 7)
    }

    @Test("A reply that breaks off anywhere is incomplete, and its state is not used")
    func truncation() throws {
        var text: [UInt8] = []
        try UAPIDeviceStateTests.state().appendReply(to: &text)
        for length in 0..<text.count {
            #expect(throws: UAPIReplyError.incomplete) { try UAPIDeviceState(reply: Array(text.prefix(length))) }
        }
    }

    @Test(
        "An errno other than 0 is the device's refusal, with either sign",
        arguments: ["errno=1\n\n", "errno=-1\n\n", "listen_port=1\nerrno=1\n\n"])
    func refused(text: String) {
        #expect(throws: UAPIReplyError.refused(errno: 1)) { try UAPIDeviceState(reply: Array(text.utf8)) }
    }

    @Test(
        "A malformed reply names its line",
        arguments: [
            ("listen_port=65536", 1), ("nonsense", 1), ("private_key=00", 1), ("public_key=zz", 1),
            ("public_key=\(Sample.hex(3))\nrx_bytes=-1", 2), ("public_key=\(Sample.hex(3))\nallowed_ip=x", 2),
            ("public_key=\(Sample.hex(3))\nlast_handshake_time_nsec=1000000000", 2),
            ("public_key=\(Sample.hex(3))\nendpoint=x:1", 2),
        ])
    func malformed(text: String, line: Int) {
        let error = #expect(throws: UAPIReplyError.self) {
            try UAPIDeviceState(reply: Array((text + "\nerrno=0\n\n").utf8))
        }
        guard case .malformed(let fault) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(fault.line == line)
    }

    @Test("A blank line inside a reply is not its end")
    func blankLine() {
        #expect(throws: UAPIReplyError.incomplete) {
            try UAPIDeviceState(reply: Array("listen_port=1\n\nfwmark=1\nerrno=0\n\n".utf8))
        }
    }

    @Test("A set request reads back as the update it was written from")
    func setRoundTrip() throws {
        let first = uapiResults(Array(Sample.setRequest.utf8))
        guard case .success(.set(var update)) = first.first else {
            Issue.record("\(first)")
            return
        }
        for (privateKey, presharedKey) in [
            (.unchanged, .clear), (.clear, .unchanged), (.set(Sample.privateKey(9)), .set(Sample.presharedKey(8))),
        ]
            as [(UAPIKeyChange<PrivateKey>, UAPIKeyChange<PresharedKey>)]
        {
            update.privateKey = privateKey
            update.peers[0].presharedKey = presharedKey
            var text: [UInt8] = []
            update.appendRequest(to: &text)
            #expect(uapiResults(text) == [.success(.set(update))])
        }
    }

    @Test("A configuration becomes the request that wg setconf sends")
    func setconf() throws {
        let configuration = try TunnelConfiguration.parse(
            Sample.interface("Address = 10.0.0.1/8")
                + "[Peer]\nPublicKey=\(Sample.peerText)\nPresharedKey=\(Sample.presharedText)\n"
                + "AllowedIPs=10.0.0.0/8\nEndpoint=192.0.2.1:5\nPersistentKeepalive=off\n[Peer]\nPublicKey=\(Sample.otherPeerText)\nAllowedIPs=-::/0\n"
        )
        var text: [UInt8] = []
        try configuration.deviceUpdate().appendRequest(to: &text)
        #expect(
            String(decoding: text, as: UTF8.self) == """
                set=1
                private_key=\(Sample.hex(1))
                listen_port=0
                fwmark=0
                replace_peers=true
                public_key=\(Sample.hex(3))
                preshared_key=\(Sample.hex(2))
                endpoint=192.0.2.1:5
                persistent_keepalive_interval=0
                replace_allowed_ips=true
                allowed_ip=10.0.0.0/8
                public_key=\(Sample.hex(4))
                allowed_ip=-::/0


                """)
        let added = try configuration.deviceUpdate(mode: .add)
        #expect(added.listenPort == nil)
        #expect(added.fwMark == nil)
        #expect(!added.replacePeers)
        #expect(try TunnelConfiguration().deviceUpdate().privateKey == .clear)
        #expect(try TunnelConfiguration().deviceUpdate(mode: .add).privateKey == .unchanged)
    }

    @Test("A host name must be resolved first")
    func unresolved() throws {
        let configuration = try TunnelConfiguration.parse(Sample.peer("Endpoint = vpn.example.com:51820"))
        let error = #expect(throws: UnresolvedEndpoint.self) { try configuration.deviceUpdate() }
        #expect(error?.endpoint.host == "vpn.example.com")
        let endpoint = try Endpoint("192.0.2.1:51820")
        #expect(try configuration.deviceUpdate { _ in endpoint }.peers.first?.endpoint == endpoint)
    }
}
