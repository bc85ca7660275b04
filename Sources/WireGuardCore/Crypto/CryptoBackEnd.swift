// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The one place that chooses between the two implementations of the AEAD and of X25519. Where swift-crypto builds
// BoringSSL (Linux, Android), it is called directly: in place, without allocation. Elsewhere swift-crypto's public API,
// which on Apple platforms is CryptoKit. Both are compiled wherever both can be, and pass the same vectors.

#if canImport(CCryptoBoringSSL)
    typealias CryptoBackEnd = BoringSSLBackEnd
    package typealias TransportCipher = BoringSSLTransportCipher
#else
    typealias CryptoBackEnd = SwiftCryptoBackEnd
    package typealias TransportCipher = SwiftCryptoTransportCipher
#endif

/// A back end's functions for single messages. Callers use the concrete type.
protocol CryptoPrimitives {
    /// ChaCha20-Poly1305; `out` is where the plaintext is or does not overlap it, and takes 16 bytes more.
    static func seal(
        key: Bytes32, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer)

    /// The reverse; false when the message is not authentic or shorter than a tag.
    static func open(
        key: Bytes32, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) -> Bool

    /// X25519(secret, 9).
    static func publicKey(for secret: Bytes32) -> Bytes32

    /// X25519(secret, publicKey); `nil` if every byte of it is zero.
    static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32?
}

/// The cipher of one direction of one session. Callers use the concrete type.
protocol TransportSealing: AnyObject, Sendable {
    init(key: Bytes32)

    /// Seals `byteCount` bytes at `source` and writes 16 more than that to `destination`.
    func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, destination: UnsafeMutableRawPointer)

    /// Opens `sealedByteCount` bytes at `source`, tag included, and writes 16 fewer to `destination`.
    func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, destination: UnsafeMutableRawPointer
    ) -> Bool

    /// Seals with `authenticating`, additional bytes that are sent with the message and covered by the tag.
    func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer)

    /// Opens a message that was sealed with `authenticating`.
    func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer
    ) -> Bool
}
