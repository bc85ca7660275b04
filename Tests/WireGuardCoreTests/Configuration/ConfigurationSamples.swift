// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// Keys and texts that the tests of this folder share.
enum Sample {
    static let privateText = key(1)
    static let presharedText = key(2)
    static let peerText = key(3)
    static let otherPeerText = key(4)

    /// The base64 of 32 bytes that `seed` decides.
    static func key(_ seed: UInt8) -> String {
        publicKey(seed).base64
    }

    static func hex(_ seed: UInt8) -> String {
        publicKey(seed).hex
    }

    static func publicKey(_ seed: UInt8) -> PublicKey {
        var generator = SplitMix64(seed: UInt64(seed))
        let bytes = (0..<32).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        return PublicKey(bytes: bytes) ?? unreachable()
    }

    static func privateKey(_ seed: UInt8) -> PrivateKey {
        PrivateKey(base64: key(seed)) ?? unreachable()
    }

    static func presharedKey(_ seed: UInt8) -> PresharedKey {
        PresharedKey(base64: key(seed)) ?? unreachable()
    }

    /// `lines` as a complete `[Interface]`, the private key on line 2.
    static func interface(_ lines: String...) -> String {
        (["[Interface]", "PrivateKey = \(privateText)"] + lines).joined(separator: "\n") + "\n"
    }

    /// An interface of two lines and a `[Peer]` on line 3 with `lines`, the public key on line 4.
    static func peer(_ lines: String...) -> String {
        interface() + (["[Peer]", "PublicKey = \(peerText)"] + lines).joined(separator: "\n") + "\n"
    }

    /// A file that uses every key.
    static let wholeFile = """
        # The office
        [Interface]
        PrivateKey = \(privateText)
        ListenPort = 51820
        FwMark = 0xca6c
        Address = 10.0.0.2/24, fd00::2/64
        DNS = 10.0.0.1, fd00::1, corp.example
        MTU = 1420
        Table = 1234
        PreUp = echo pre up
        PostUp = iptables -A FORWARD -i %i -j ACCEPT; echo "up"
        PreDown = echo pre down
        PostDown = echo post down
        SaveConfig = true

        [Peer]
        PublicKey = \(peerText)
        PresharedKey = \(presharedText)
        AllowedIPs = 10.0.0.0/24, fd00::/64
        Endpoint = vpn.example.com:51820
        PersistentKeepalive = 25

        [Peer]
        PublicKey = \(otherPeerText)
        AllowedIPs = +10.1.0.0/16, -10.1.2.0/24
        Endpoint = [2001:db8::1]:51821
        PersistentKeepalive = off

        """

    /// A set request that uses every key.
    static let setRequest = """
        set=1
        private_key=\(hex(1))
        listen_port=51820
        fwmark=51820
        replace_peers=true
        public_key=\(hex(3))
        update_only=true
        preshared_key=\(hex(2))
        endpoint=[fe80::1%7]:51820
        persistent_keepalive_interval=25
        replace_allowed_ips=true
        allowed_ip=10.0.0.0/8
        allowed_ip=-10.1.0.0/16
        allowed_ip=::/0
        protocol_version=1
        public_key=\(hex(4))
        remove=true


        """
}

/// For values that the samples make valid by construction.
func unreachable<Value>() -> Value { preconditionFailure("a sample is malformed") }

/// Steele, Lea and Flood's generator: the same numbers for the same seed.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
