// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(CCryptoBoringSSL)
    import CCryptoBoringSSL

    /// The AEAD and X25519, called directly in the BoringSSL that swift-crypto links.
    enum BoringSSLBackEnd: CryptoPrimitives {
        static func seal(
            key: Bytes32, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer,
            authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
        ) {
            var context = unsafe EVP_AEAD_CTX()
            unsafe withUnsafeMutablePointer(to: &context) { context in
                unsafe context.start(key: key)
                unsafe context.seal(
                    nonce: nonce, source: plaintext.baseAddress, byteCount: plaintext.count,
                    authenticating: authenticating, destination: out)
                unsafe context.end()
            }
        }

        static func open(
            key: Bytes32, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
            into out: UnsafeMutableRawPointer
        ) -> Bool {
            guard let source = sealed.baseAddress, sealed.count >= ChaChaPoly.tagByteCount else { return false }
            var context = unsafe EVP_AEAD_CTX()
            return unsafe withUnsafeMutablePointer(to: &context) { context in
                unsafe context.start(key: key)
                let isAuthentic = unsafe context.open(
                    nonce: nonce, source: source, byteCount: sealed.count &- ChaChaPoly.tagByteCount,
                    authenticating: authenticating, destination: out)
                unsafe context.end()
                return isAuthentic
            }
        }

        static func publicKey(for secret: Bytes32) -> Bytes32 {
            unsafe Bytes32 { result in
                unsafe secret.withBytes { secret in
                    unsafe CCryptoBoringSSL_X25519_public_from_private(result.bytes, secret.bytes)
                }
            }
        }

        static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32? {
            var isGood: CInt = 0
            let shared = unsafe Bytes32 { result in
                isGood = unsafe secret.withBytes { secret in
                    unsafe publicKey.withBytes { publicKey in
                        unsafe CCryptoBoringSSL_X25519(result.bytes, secret.bytes, publicKey.bytes)
                    }
                }
            }
            return isGood == 1 ? shared : nil
        }
    }

    /// One direction of one session: ChaCha20-Poly1305 under one key, in place or into another buffer.
    ///
    /// The context is set up once and is then only read, so any number of threads may seal and open at the same time.
    /// No call allocates memory, except the first failure on a thread, for which BoringSSL creates that thread's error
    /// queue. The key is wiped when the last owner releases this object.
    ///
    /// If the process has selected a ``TransportLibrary``, its functions seal and open in place of BoringSSL's.
    @safe
    package final class BoringSSLTransportCipher: TransportSealing, @unchecked Sendable {
        let context: UnsafeMutablePointer<EVP_AEAD_CTX>
        let library: KeyedLibrary?

        package convenience init(key: Bytes32) {
            self.init(key: key, library: TransportLibrary.current)
        }

        /// A cipher that uses `library`, or BoringSSL if it is `nil`.
        package init(key: Bytes32, library: TransportLibrary?) {
            unsafe context = UnsafeMutablePointer<EVP_AEAD_CTX>.allocate(capacity: 1)
            unsafe context.initialize(to: EVP_AEAD_CTX())
            unsafe context.start(key: key)
            self.library = library.map { KeyedLibrary($0, key: key) }
        }

        deinit {
            unsafe context.end()
            unsafe context.deallocate()
            library?.end()
        }

        /// Seals `byteCount` bytes at `source`, and writes 16 bytes more to `destination`.
        ///
        /// `destination` must equal `source` or not overlap it.
        package func seal(
            counter: UInt64, source: UnsafeRawPointer, byteCount: Int, destination: UnsafeMutableRawPointer
        ) {
            unsafe seal(
                counter: counter, source: source, byteCount: byteCount,
                authenticating: UnsafeRawBufferPointer(start: nil, count: 0), destination: destination)
        }

        /// Seals `byteCount` bytes at `source`, authenticates `authenticating` too, and writes 16 bytes more to
        /// `destination`, which must equal `source` or not overlap it.
        @inline(__always)
        package func seal(
            counter: UInt64, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
            destination: UnsafeMutableRawPointer
        ) {
            let nonce = ChaChaNonce(counter: counter)
            if let library,
                unsafe library.seal(
                    nonce: nonce, source: source, byteCount: byteCount, authenticating: authenticating,
                    destination: destination)
            {
                return
            }
            unsafe context.seal(
                nonce: nonce, source: source, byteCount: byteCount, authenticating: authenticating,
                destination: destination)
        }

        /// Opens `sealedByteCount` bytes at `source`, including the tag, and writes 16 bytes fewer to `destination`.
        ///
        /// `destination` must equal `source` or not overlap it. If the message is not authentic or is shorter than a
        /// tag, returns `false` and leaves no usable bytes at `destination`.
        package func open(
            counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, destination: UnsafeMutableRawPointer
        ) -> Bool {
            unsafe open(
                counter: counter, source: source, sealedByteCount: sealedByteCount,
                authenticating: UnsafeRawBufferPointer(start: nil, count: 0), destination: destination)
        }

        /// Opens a message that was sealed with `authenticating`.
        @inline(__always)
        package func open(
            counter: UInt64, source: UnsafeRawPointer, sealedByteCount: Int, authenticating: UnsafeRawBufferPointer,
            destination: UnsafeMutableRawPointer
        ) -> Bool {
            guard sealedByteCount >= ChaChaPoly.tagByteCount else { return false }
            let nonce = ChaChaNonce(counter: counter)
            let byteCount = sealedByteCount &- ChaChaPoly.tagByteCount
            if let library,
                let isAuthentic = unsafe library.open(
                    nonce: nonce, source: source, byteCount: byteCount, authenticating: authenticating,
                    destination: destination)
            {
                return isAuthentic
            }
            return unsafe context.open(
                nonce: nonce, source: source, byteCount: byteCount, authenticating: authenticating,
                destination: destination)
        }
    }

    extension BoringSSLTransportCipher: CustomReflectable {
        package var customMirror: Mirror { Mirror(self, children: []) }
    }

    // MARK: - A library in place of BoringSSL

    /// A library with the key of one direction of one session.
    @safe
    struct KeyedLibrary {
        let library: TransportLibrary
        let key: UnsafeMutablePointer<Bytes32>

        init(_ library: TransportLibrary, key: Bytes32) {
            self.library = library
            unsafe self.key = .allocate(capacity: 1)
            unsafe self.key.initialize(to: .zero)
            unsafe key.store(to: self.key)
        }

        /// Wipes the key, and frees its memory.
        func end() {
            unsafe key.pointee.wipe()
            unsafe key.deallocate()
        }

        /// Returns whether the library has sealed the message; if not, it has written nothing.
        @inline(__always)
        func seal(
            nonce: ChaChaNonce, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
            destination: UnsafeMutableRawPointer
        ) -> Bool {
            unsafe nonce.withBytes { nonce in
                unsafe library.seal(
                    key, nonce, source, byteCount, authenticating.baseAddress, authenticating.count, destination)
            }
        }

        /// Returns whether the message is authentic, or `nil` if the library has not opened it and has written nothing.
        @inline(__always)
        func open(
            nonce: ChaChaNonce, source: UnsafeRawPointer, byteCount: Int, authenticating: UnsafeRawBufferPointer,
            destination: UnsafeMutableRawPointer
        ) -> Bool? {
            let result = unsafe nonce.withBytes { nonce in
                unsafe library.open(
                    key, nonce, source, byteCount, authenticating.baseAddress, authenticating.count, destination)
            }
            return result < 0 ? nil : result == 1
        }
    }

    // MARK: - The C context

    extension UnsafeMutablePointer where Pointee == EVP_AEAD_CTX {
        fileprivate func start(key: Bytes32) {
            let result = unsafe key.withBytes { key in
                unsafe CCryptoBoringSSL_EVP_AEAD_CTX_init(
                    self, CCryptoBoringSSL_EVP_aead_chacha20_poly1305(), key.bytes, Bytes32.byteCount,
                    ChaChaPoly.tagByteCount, nil)
            }
            precondition(result == 1, "ChaCha20-Poly1305 takes every 32-byte key")
        }

        fileprivate func end() {
            unsafe CCryptoBoringSSL_EVP_AEAD_CTX_cleanup(self)
            unsafe wipe(UnsafeMutableRawBufferPointer(start: self, count: MemoryLayout<EVP_AEAD_CTX>.size))
        }

        @inline(__always)
        fileprivate func seal(
            nonce: ChaChaNonce, source: UnsafeRawPointer?, byteCount: Int,
            authenticating: UnsafeRawBufferPointer, destination: UnsafeMutableRawPointer
        ) {
            var tagByteCount = 0
            let result = unsafe nonce.withBytes { nonce in
                let out = unsafe destination.assumingMemoryBound(to: UInt8.self)
                return unsafe CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
                    self, out, out + byteCount, &tagByteCount, ChaChaPoly.tagByteCount,
                    nonce.assumingMemoryBound(to: UInt8.self), MemoryLayout<ChaChaNonce>.size,
                    source?.assumingMemoryBound(to: UInt8.self), byteCount, nil, 0,
                    authenticating.bytes, authenticating.count)
            }
            // Only overlapping buffers or 256 GiB of data make this fail. Continuing would send plaintext.
            precondition(result == 1 && tagByteCount == ChaChaPoly.tagByteCount, "sealing failed")
        }

        @inline(__always)
        fileprivate func open(
            nonce: ChaChaNonce, source: UnsafeRawPointer, byteCount: Int,
            authenticating: UnsafeRawBufferPointer, destination: UnsafeMutableRawPointer
        ) -> Bool {
            let result = unsafe nonce.withBytes { nonce in
                let sealed = unsafe source.assumingMemoryBound(to: UInt8.self)
                return unsafe CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
                    self, destination.assumingMemoryBound(to: UInt8.self),
                    nonce.assumingMemoryBound(to: UInt8.self), MemoryLayout<ChaChaNonce>.size,
                    sealed, byteCount, sealed + byteCount, ChaChaPoly.tagByteCount,
                    authenticating.bytes, authenticating.count)
            }
            guard result == 1 else {
                // BoringSSL adds each failure to the thread's error queue, where its other users would find it.
                CCryptoBoringSSL_ERR_clear_error()
                return false
            }
            return true
        }
    }

    extension UnsafeRawBufferPointer {
        fileprivate var bytes: UnsafePointer<UInt8>? { unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) }
    }

    extension UnsafeMutableRawBufferPointer {
        fileprivate var bytes: UnsafeMutablePointer<UInt8>? { unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) }
    }
#endif
