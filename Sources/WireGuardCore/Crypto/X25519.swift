// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// X25519 (RFC 7748).
package enum X25519 {
    /// Returns the public key of a secret. The secret is clamped first.
    package static func publicKey(for secret: Bytes32) -> Bytes32 {
        CryptoBackEnd.publicKey(for: secret)
    }

    /// Returns the shared secret; `nil` if it is all zero, as with a point of low order (RFC 7748 section 6.1).
    package static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32? {
        CryptoBackEnd.sharedSecret(secret: secret, publicKey: publicKey)
    }
}

extension PrivateKey {
    /// The public key of this private key (RFC 7748 section 5). It is computed at each access.
    public var publicKey: PublicKey {
        var scalar = Bytes32(copying: secret)
        defer { scalar.wipe() }
        return PublicKey(X25519.publicKey(for: scalar))
    }
}
