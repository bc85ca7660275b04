// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import WireGuardCore

    /// culvert-wg against the boringtun in mitmproxy; run by `dev/machine boringtun`.
    @Suite(
        "Tunnels between culvert-wg and boringtun carry traffic", .serialized,
        .enabled(if: BoringtunPeer.folder != nil), .timeLimit(.minutes(10)))
    struct BoringtunPeerTests {
        @Test("A session comes up, echoes of each size come back, and 8 MiB of HTTP pass whole each way")
        func traffic() throws {
            let pair = try BoringtunPeer()
            try pair.ping("-c 1 -W 20")
            #expect(try pair.peer().latestHandshake > 0)
            let bad = try pair.namespace.run(
                "bash", "-c",
                """
                for size in $(seq 0 7 1392) 1391 1392; do
                    ping -n -q -c 1 -W 9 -M do -p a5c3 -s $size 10.77.0.1 >/tmp/boringtun-peer-size 2>&1 &&
                        ! grep -q 'wrong data' /tmp/boringtun-peer-size || echo "$size"
                done
                """, deadline: .seconds(120)
            ).output
            #expect(bad.isEmpty, "sizes: \(bad)")
            let before = try pair.peer()
            try pair.exchange()
            let after = try pair.peer()
            #expect(after.received - before.received > 2 * BoringtunPeer.bodyByteCount)
            #expect(after.sent - before.sent > BoringtunPeer.bodyByteCount)
            #expect(after.latestHandshake == before.latestHandshake, "it was one session")
        }

        @Test("After a restart of boringtun a new session is created, and HTTP passes unchanged")
        func restart() throws {
            let pair = try BoringtunPeer()
            try pair.exchange()
            let before = try pair.peer().latestHandshake
            try pair.restart()
            // The daemon detects the loss fifteen seconds after its last packet.
            try eventually("an echo comes back", within: .seconds(60)) { (try? pair.ping("-c 1 -W 1")) != nil }
            #expect(try pair.peer().latestHandshake > before)
            try pair.exchange()
        }

        @Test("There is no session with another private key, nor when boringtun's public key is another")
        func wrongKeys() throws {
            let pair = try BoringtunPeer()
            for (own, other, refusal) in [
                (StaticKeys(), pair.peerKeys.publicKey, "packet from unknown peer"),
                (pair.keys, StaticKeys().publicKey, "Failed to process a WireGuard handshake"),
            ] {
                try pair.configure(own, other)
                let result = try pair.namespace.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "2", "-W", "7", "10.77.0.1")
                #expect(result.output.contains("100% packet loss"), "\(result)")
                let peer = try Wg.peer(other, of: pair.daemon.name)
                #expect(peer.received == 0 && peer.latestHandshake == 0, "\(peer)")
                #expect(pair.log.contains(refusal), "\(pair.log)")
            }
            try pair.configure(pair.keys, pair.peerKeys.publicKey)
            try pair.ping("-c 1 -W 20")
        }

        @Test("A change of keys under traffic, and a pause of three minutes, lose nothing")
        func rekey() throws {
            let pair = try BoringtunPeer()
            try pair.ping("-c 1 -W 20")
            let first = try pair.peer().latestHandshake
            try pair.ping("-i 0.05 -c 2700 -W 5", deadline: .seconds(240))
            let second = try pair.peer().latestHandshake
            #expect((119...135).contains(second - first), "\(second - first) seconds between the handshakes")
            try pair.exchange()
            // Sessions expire in this time, so the test must wait.
            try pair.namespace.run("sleep", "185", deadline: .seconds(240))
            try pair.ping("-i 0.05 -c 20 -W 20")
            #expect(try pair.peer().latestHandshake > second)
            try pair.exchange()
        }
    }
#endif
