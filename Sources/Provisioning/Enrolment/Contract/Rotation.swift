// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
public import WireGuardCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The challenge by which a device proves its old key: the reply to `POST /v1/device/rotation-nonces`.
public struct RotationNonce: ContractMessage {
    /// 32 random bytes from the gateway.
    public var nonce: [UInt8]
    /// The gateway's key for the proof.
    public var serverKey: PublicKey
    /// The time for which the gateway accepts the nonce, in seconds.
    public var lifetimeSeconds: Int64

    /// Makes a nonce.
    public init(nonce: [UInt8], serverKey: PublicKey, lifetimeSeconds: Int64) {
        self.nonce = nonce
        self.serverKey = serverKey
        self.lifetimeSeconds = lifetimeSeconds
    }

    /// The members.
    public static let message = CompleteMessage<RotationNonce>(
        RotationNonce.init(nonce:serverKey:lifetimeSeconds:),
        TypedField("nonce", \.nonce, .bytes32),
        TypedField("serverKey", \.serverKey, .key),
        TypedField("lifetimeSeconds", \.lifetimeSeconds, .seconds(from: 1)))
}

/// A request to replace the key: `POST /v1/device/rotations`. A repeated identical request gets the same answer.
public struct RotationRequest: ContractMessage {
    /// The new key.
    public var publicKey: PublicKey
    /// The gateway's nonce.
    public var nonce: [UInt8]
    /// The proof that the sender has the old key.
    public var proof: [UInt8]

    /// Makes a request from its parts.
    public init(publicKey: PublicKey, nonce: [UInt8], proof: [UInt8]) {
        self.publicKey = publicKey
        self.nonce = nonce
        self.proof = proof
    }

    /// Creates a request that proves possession of the old key. Returns `nil` if the gateway's key is not valid (a
    /// point of low order).
    public init?(from old: PrivateKey, to new: PublicKey, answering nonce: RotationNonce) {
        guard let proof = Self.proof(own: old, other: nonce.serverKey, nonce: nonce.nonce, newKey: new) else {
            return nil
        }
        self.init(publicKey: new, nonce: nonce.nonce, proof: proof)
    }

    /// Computes the proof: HMAC-SHA256 with the key X25519(`own`, `other`), over `culvert-rotation-1`, the nonce and the new
    /// key.
    ///
    /// The device computes the proof with its old private key and the gateway's public key. The gateway computes it
    /// with its private key and the device's old public key.
    /// - Returns: `nil` if the keys have no shared secret (RFC 7748 section 6.1).
    public static func proof(own: PrivateKey, other: PublicKey, nonce: [UInt8], newKey: PublicKey) -> [UInt8]? {
        code(own, other) { code in
            code.update(data: message(nonce, newKey))
            return Array(code.finalize())
        }
    }

    /// Whether the proof was made with the private key of `oldKey`, for the gateway with the key `serverKey`. The
    /// comparison time does not depend on where a wrong proof differs.
    public func isProven(by oldKey: PublicKey, to serverKey: PrivateKey) -> Bool {
        guard let expected = Self.proof(own: serverKey, other: oldKey, nonce: nonce, newKey: publicKey),
            expected.count == proof.count
        else { return false }
        var difference: UInt8 = 0
        for index in expected.indices { difference |= expected[index] ^ proof[index] }
        return difference == 0
    }

    private static func message(_ nonce: [UInt8], _ newKey: PublicKey) -> Data {
        Data("culvert-rotation-1".utf8) + nonce + newKey.bytes
    }

    private static func code<Result>(
        _ own: PrivateKey, _ other: PublicKey, _ body: (inout HMAC<SHA256>) -> Result
    ) -> Result? {
        var scalar = Bytes32(copying: own.secret)
        defer { scalar.wipe() }
        guard var shared = X25519.sharedSecret(secret: scalar, publicKey: Bytes32(other)) else { return nil }
        defer { shared.wipe() }
        var code = HMAC<SHA256>(key: unsafe shared.withBytes { unsafe SymmetricKey(data: $0) })
        return body(&code)
    }

    /// The members.
    public static let message = CompleteMessage<RotationRequest>(
        RotationRequest.init(publicKey:nonce:proof:),
        TypedField("publicKey", \.publicKey, .key),
        TypedField("nonce", \.nonce, .bytes32),
        TypedField("proof", \.proof, .bytes32))

    /// `true`: the message is a request.
    public static let isRequest = true
}
