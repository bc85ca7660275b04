// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The 12-byte nonce of ChaCha20-Poly1305 (RFC 8439), stored in its wire format.
struct ChaChaNonce {
    private let first, second, third: UInt32

    /// Four zero bytes, then the counter in little-endian order (WireGuard paper, section 5.4).
    @inline(__always)
    init(counter: UInt64) {
        first = 0
        second = UInt32(truncatingIfNeeded: counter).littleEndian
        third = UInt32(truncatingIfNeeded: counter >> 32).littleEndian
    }

    /// Loads the 12 bytes at `bytes`, which need not be aligned.
    init(loadingFrom bytes: UnsafeRawPointer) {
        first = unsafe bytes.loadUnaligned(as: UInt32.self)
        second = unsafe bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
        third = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self)
    }

    /// Calls `body` with the bytes.
    @inline(__always)
    func withBytes<R>(_ body: (UnsafeRawPointer) throws -> R) rethrows -> R {
        try unsafe withUnsafePointer(to: self) { try unsafe body(UnsafeRawPointer($0)) }
    }
}

/// ChaCha20-Poly1305 (RFC 8439) for single messages: handshakes and cookies.
package enum ChaChaPoly {
    /// The number of bytes that sealing adds.
    package static let tagByteCount = 16

    /// Seals `plaintext` under the nonce `counter`, and writes `plaintext.count` + 16 bytes to `out`.
    ///
    /// `out` must start at the plaintext or not overlap it.
    package static func seal(
        key: Bytes32, counter: UInt64, plaintext: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) {
        unsafe CryptoBackEnd.seal(
            key: key, nonce: ChaChaNonce(counter: counter), plaintext: plaintext, authenticating: authenticating,
            into: out)
    }

    /// Opens `sealed`, which is ciphertext and tag, and writes `sealed.count` − 16 bytes to `out`.
    ///
    /// `out` must start at the ciphertext or not overlap it. If the message is not authentic or has fewer than 16
    /// bytes, returns `false` and leaves no usable bytes in `out`.
    package static func open(
        key: Bytes32, counter: UInt64, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
        into out: UnsafeMutableRawPointer
    ) -> Bool {
        unsafe CryptoBackEnd.open(
            key: key, nonce: ChaChaNonce(counter: counter), sealed: sealed, authenticating: authenticating, into: out)
    }
}

/// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): 24-byte nonces that may be random. Cookie replies use it.
package enum XChaChaPoly {
    /// The number of bytes of a nonce.
    package static let nonceByteCount = 24

    /// Seals `plaintext` under a 24-byte nonce, and writes `plaintext.count` + 16 bytes to `out`.
    ///
    /// `out` must start at the plaintext or not overlap it.
    package static func seal(
        key: Bytes32, nonce: UnsafeRawBufferPointer, plaintext: UnsafeRawBufferPointer,
        authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
    ) {
        var (subkey, counter) = unsafe split(key: key, nonce: nonce)
        unsafe ChaChaPoly.seal(
            key: subkey, counter: counter, plaintext: plaintext, authenticating: authenticating, into: out)
        subkey.wipe()
    }

    /// Opens `sealed`, which is ciphertext and tag, and writes `sealed.count` − 16 bytes to `out`.
    ///
    /// `out` must start at the ciphertext or not overlap it. If the message is not authentic or has fewer than 16
    /// bytes, returns `false` and leaves no usable bytes in `out`.
    package static func open(
        key: Bytes32, nonce: UnsafeRawBufferPointer, sealed: UnsafeRawBufferPointer,
        authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
    ) -> Bool {
        var (subkey, counter) = unsafe split(key: key, nonce: nonce)
        let isAuthentic = unsafe ChaChaPoly.open(
            key: subkey, counter: counter, sealed: sealed, authenticating: authenticating, into: out)
        subkey.wipe()
        return isAuthentic
    }

    /// Derives the subkey from the first 16 bytes of the nonce. The last 8 bytes are the counter of the inner cipher.
    private static func split(key: Bytes32, nonce: UnsafeRawBufferPointer) -> (subkey: Bytes32, counter: UInt64) {
        guard let start = nonce.baseAddress, nonce.count == nonceByteCount else {
            preconditionFailure("XChaCha20 nonces have 24 bytes")
        }
        let counter = unsafe UInt64(littleEndian: start.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
        return (unsafe HChaCha20.subkey(key: key, nonce: start), counter)
    }
}
