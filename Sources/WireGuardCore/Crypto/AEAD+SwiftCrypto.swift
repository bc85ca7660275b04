// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto

/// The AEAD and X25519 through swift-crypto's public API, which is CryptoKit on Apple platforms. It copies and
/// allocates for each message.
enum SwiftCryptoBackEnd: CryptoPrimitives {
    static func seal(
        key: Bytes32, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) {
        let key = SymmetricKey(key)
        unsafe seal(key: key, nonce: nonce, plaintext: plaintext, authenticating: authenticating, into: out)
    }

    static func open(
        key: Bytes32, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) -> Bool {
        let key = SymmetricKey(key)
        return unsafe open(key: key, nonce: nonce, sealed: sealed, authenticating: authenticating, into: out)
    }

    fileprivate static func seal(
        key: SymmetricKey, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer,
        authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
    ) {
        guard
            let box = try? unsafe Crypto.ChaChaPoly.seal(
                plaintext, using: key, nonce: Crypto.ChaChaPoly.Nonce(nonce), authenticating: authenticating)
        else {
            // Continuing would send plaintext.
            preconditionFailure("sealing failed")
        }
        unsafe copy(box.ciphertext, to: out)
        unsafe copy(box.tag, to: out + plaintext.count)
    }

    fileprivate static func open(
        key: SymmetricKey, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer,
        authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
    ) -> Bool {
        guard sealed.count >= ChaChaPoly.tagByteCount else { return false }
        let end = sealed.count &- ChaChaPoly.tagByteCount
        let ciphertext = unsafe UnsafeRawBufferPointer(rebasing: sealed[..<end])
        let tag = unsafe UnsafeRawBufferPointer(rebasing: sealed[end...])
        guard
            let box = try? unsafe Crypto.ChaChaPoly.SealedBox(
                nonce: Crypto.ChaChaPoly.Nonce(nonce), ciphertext: ciphertext, tag: tag),
            let plaintext = try? unsafe Crypto.ChaChaPoly.open(box, using: key, authenticating: authenticating)
        else { return false }
        unsafe copy(plaintext, to: out)
        return true
    }

    static func publicKey(for secret: Bytes32) -> Bytes32 {
        guard let key = privateKey(secret) else { preconditionFailure("X25519 takes every 32-byte secret") }
        return bytes32(key.publicKey.rawRepresentation)
    }

    static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32? {
        typealias Key = Curve25519.KeyAgreement.PublicKey
        guard let secret = privateKey(secret),
            let publicKey = try? unsafe publicKey.withBytes({ try unsafe Key(rawRepresentation: $0) }),
            let shared = try? secret.sharedSecretFromKeyAgreement(with: publicKey)
        else { return nil }
        let result = unsafe shared.withUnsafeBytes { unsafe bytes32($0) }
        return result.isZero ? nil : result
    }

    private static func privateKey(_ secret: Bytes32) -> Curve25519.KeyAgreement.PrivateKey? {
        typealias Key = Curve25519.KeyAgreement.PrivateKey
        return try? unsafe secret.withBytes { try unsafe Key(rawRepresentation: $0) }
    }

    private static func bytes32(_ bytes: some Collection<UInt8>) -> Bytes32 {
        precondition(bytes.count == Bytes32.byteCount, "keys of X25519 have 32 bytes")
        return unsafe Bytes32 { unsafe $0.copyBytes(from: bytes) }
    }

    /// Copies from any collection, with one copy if it is contiguous.
    private static func copy(_ bytes: some Collection<UInt8>, to out: UnsafeMutableRawPointer) {
        let isDone: Void? = bytes.withContiguousStorageIfAvailable { bytes in
            guard let start = bytes.baseAddress else { return }
            unsafe out.copyMemory(from: start, byteCount: bytes.count)
        }
        if isDone == nil {
            unsafe UnsafeMutableRawBufferPointer(start: out, count: bytes.count).copyBytes(from: bytes)
        }
    }
}

/// One direction of one session: ChaCha20-Poly1305 under one key through swift-crypto's public API.
///
/// Any number of threads may seal and open at the same time. `SymmetricKey` wipes the key when the last owner releases it.
package final class SwiftCryptoTransportCipher: TransportSealing {
    private let key: SymmetricKey

    package init(key: Bytes32) {
        self.key = SymmetricKey(key)
    }

    /// Seals `byteCount` bytes at `source`, and writes 16 bytes more to `destination`.
    ///
    /// `destination` must equal `source` or not overlap it.
    package func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, destination: UnsafeMutableRawPointer
    ) {
        unsafe SwiftCryptoBackEnd.seal(
            key: key, nonce: ChaChaNonce(counter: counter),
            plaintext: UnsafeRawBufferPointer(start: source, count: byteCount),
            authenticating: UnsafeRawBufferPointer(start: nil, count: 0), into: destination)
    }

    /// Seals `byteCount` bytes at `source`, authenticates `authenticating` too, and writes 16 bytes more to
    /// `destination`, which must equal `source` or not overlap it.
    package func seal(
        counter: UInt64, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer
    ) {
        unsafe SwiftCryptoBackEnd.seal(
            key: key, nonce: ChaChaNonce(counter: counter),
            plaintext: UnsafeRawBufferPointer(start: source, count: byteCount),
            authenticating: authenticating, into: destination)
    }

    /// Opens `sealedByteCount` bytes at `source`, including the tag, and writes 16 bytes fewer to `destination`.
    ///
    /// `destination` must equal `source` or not overlap it. If the message is not authentic or is shorter than a tag,
    /// returns `false` and leaves no usable bytes at `destination`.
    package func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, destination: UnsafeMutableRawPointer
    ) -> Bool {
        guard sealedByteCount >= ChaChaPoly.tagByteCount else { return false }
        return unsafe SwiftCryptoBackEnd.open(
            key: key, nonce: ChaChaNonce(counter: counter),
            sealed: UnsafeRawBufferPointer(start: source, count: sealedByteCount),
            authenticating: UnsafeRawBufferPointer(start: nil, count: 0), into: destination)
    }

    /// Opens a message that was sealed with `authenticating`.
    package func open(
        counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, authenticating: UnsafeRawBufferPointer,
        destination: UnsafeMutableRawPointer
    ) -> Bool {
        guard sealedByteCount >= ChaChaPoly.tagByteCount else { return false }
        return unsafe SwiftCryptoBackEnd.open(
            key: key, nonce: ChaChaNonce(counter: counter),
            sealed: UnsafeRawBufferPointer(start: source, count: sealedByteCount),
            authenticating: authenticating, into: destination)
    }
}

extension SwiftCryptoTransportCipher: CustomReflectable {
    package var customMirror: Mirror { Mirror(self, children: []) }
}

// MARK: - Values of the public API from ours

extension SymmetricKey {
    fileprivate init(_ bytes: Bytes32) {
        unsafe self = bytes.withBytes { unsafe SymmetricKey(data: $0) }
    }
}

extension Crypto.ChaChaPoly.Nonce {
    fileprivate init(_ nonce: ChaChaNonce) throws {
        self = try unsafe nonce.withBytes {
            try unsafe Self(data: UnsafeRawBufferPointer(start: $0, count: MemoryLayout<ChaChaNonce>.size))
        }
    }
}
