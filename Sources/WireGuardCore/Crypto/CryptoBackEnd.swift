// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Selects the implementation of the AEAD and of X25519. If swift-crypto builds BoringSSL (Linux, Android), BoringSSL is
// called directly: in place and without allocation. Otherwise swift-crypto's public API is used, which is CryptoKit on
// Apple platforms. Each platform compiles every implementation that it can, and both pass the same test vectors.

#if canImport(CCryptoBoringSSL)
    typealias CryptoBackEnd = BoringSSLBackEnd
    package typealias TransportCipher = BoringSSLTransportCipher
#else
    typealias CryptoBackEnd = SwiftCryptoBackEnd
    package typealias TransportCipher = SwiftCryptoTransportCipher
#endif

/// A back end's functions for single messages. Callers use the concrete type.
protocol CryptoPrimitives {
    /// Seals with ChaCha20-Poly1305. `out` must start at the plaintext or not overlap it, and receives 16 bytes more.
    static func seal(
        key: Bytes32, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer)

    /// Opens a sealed message. Returns `false` if it is not authentic or is shorter than a tag.
    static func open(
        key: Bytes32, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) -> Bool

    /// X25519(secret, 9).
    static func publicKey(for secret: Bytes32) -> Bytes32

    /// X25519(secret, publicKey); `nil` if all its bytes are zero.
    static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32?
}

/// The cipher of one direction of one session. Callers use the concrete type.
protocol TransportSealing: AnyObject, Sendable {
    init(key: Bytes32)

    /// Seals `byteCount` bytes at `source`, and writes 16 bytes more to `destination`.
    func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, destination: UnsafeMutableRawPointer)

    /// Opens `sealedByteCount` bytes at `source`, including the tag, and writes 16 bytes fewer to `destination`.
    func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, destination: UnsafeMutableRawPointer
    ) -> Bool

    /// Seals like the function above. The tag also authenticates `authenticating`, additional bytes that are sent with
    /// the message.
    func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer)

    /// Opens a message that was sealed with `authenticating`.
    func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer
    ) -> Bool
}
