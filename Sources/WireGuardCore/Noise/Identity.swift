// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// This device's static key pair, with the values that are derived from it once.
///
/// Source: WireGuard paper, sections 5.4.4 and 5.4.7.
package final class Identity: @unchecked Sendable {
    /// The static private key.
    package let privateKey: PrivateKey
    /// The static public key.
    package let publicKey: PublicKey
    /// The key of mac1 in messages to this device.
    let mac1Key: Bytes32
    /// The key that seals this device's cookie replies.
    let cookieKey: Bytes32
    /// The handshake hash of an initiation to this device, before its first message.
    let initialHash: Bytes32

    /// Derives the public key and the MAC keys.
    package init(_ privateKey: PrivateKey) {
        self.privateKey = privateKey
        var secret = Bytes32(copying: privateKey.secret)
        defer { secret.wipe() }
        let own = X25519.publicKey(for: secret)
        publicKey = PublicKey(own)
        mac1Key = NoiseConstants.mac1Key(for: own)
        cookieKey = NoiseConstants.cookieKey(for: own)
        initialHash = NoiseConstants.initialHash(responder: own)
    }

    /// Returns the DH of our static key with `key`; `nil` if the result is all zeros (RFC 7748 section 6.1).
    package func sharedSecret(with key: Bytes32) -> Bytes32? {
        // Use a temporary copy. The key itself is wiped when its last owner releases it.
        var secret = Bytes32(copying: privateKey.secret)
        defer { secret.wipe() }
        return X25519.sharedSecret(secret: secret, publicKey: key)
    }
}

/// The fixed values of Noise_IKpsk2 as WireGuard uses it (WireGuard paper, section 5.4).
enum NoiseConstants {
    /// `HASH("Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s")`.
    static let initialChainingKey = Bytes32(
        w0: 0xc0ef_27f3_ae6d_e260, w1: 0xd0d2_25a0_e235_c32e, w2: 0xf577_72f8_0642_eb16, w3: 0x36cd_788b_98d1_382d)

    /// `HASH(initialChainingKey || "WireGuard v1 zx2c4 Jason@zx2c4.com")`.
    static let identifierHash = Bytes32(
        w0: 0x66c5_1a08_61b3_1122, w1: 0x32d5_8a45_db43_1269, w2: 0xb7e8_9322_666c_9c2d, w3: 0xf39e_07ba_659c_e10e)

    static func mac1Key(for responder: Bytes32) -> Bytes32 { labelled("mac1----", responder) }
    static func cookieKey(for responder: Bytes32) -> Bytes32 { labelled("cookie--", responder) }
    static func initialHash(responder: Bytes32) -> Bytes32 { Blake2s.hash(identifierHash, responder) }

    private static func labelled(_ label: StaticString, _ key: Bytes32) -> Bytes32 {
        var hash = Blake2s(digestByteCount: 32)
        unsafe hash.update(UnsafeRawBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount))
        unsafe key.withBytes { unsafe hash.update($0) }
        return hash.finalize32()
    }
}
