// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(CCryptoBoringSSL)
    import CCryptoBoringSSL
    import WireGuardCore
    import WireGuardDevice

    /// BoringSSL's `EVP_AEAD` in place, one context for all.
    @safe
    final class BoringSSLInPlace: RawAEAD {
        private let context: UnsafeMutablePointer<EVP_AEAD_CTX>
        private let byteCount: Int
        private let slot: Int
        private let slab: UnsafeMutablePointer<UInt8>
        private var nonce: (UInt32, UInt64) = (0, 0)
        private var first: UInt64 = 0

        init(byteCount: Int) {
            self.byteCount = byteCount
            slot = (byteCount + 16 + 63) & ~63
            unsafe slab = .allocate(capacity: slot * Batch.count)
            unsafe slab.initialize(repeating: 1, count: slot * Batch.count)
            unsafe context = .allocate(capacity: 1)
            unsafe context.initialize(to: EVP_AEAD_CTX())
            let key = [UInt8](repeating: 3, count: 32)
            _ = unsafe CCryptoBoringSSL_EVP_AEAD_CTX_init(
                context, CCryptoBoringSSL_EVP_aead_chacha20_poly1305(), key, 32, 16, nil)
        }

        deinit {
            unsafe CCryptoBoringSSL_EVP_AEAD_CTX_cleanup(context)
            unsafe context.deallocate()
            unsafe slab.deallocate()
        }

        private func withNonce(_ counter: UInt64, _ body: (UnsafePointer<UInt8>) -> Void) {
            var bytes: (UInt32, UInt32, UInt32) = (
                0, UInt32(truncatingIfNeeded: counter), UInt32(truncatingIfNeeded: counter >> 32)
            )
            unsafe withUnsafeBytes(of: &bytes) { raw in
                guard let base = raw.baseAddress else { return }
                unsafe body(base.assumingMemoryBound(to: UInt8.self))
            }
        }

        func seal() {
            for index in 0..<Batch.count {
                let packet = unsafe slab + index * slot
                var tagByteCount = 0
                unsafe withNonce(first &+ UInt64(index)) { nonce in
                    _ = unsafe CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
                        context, packet, packet + byteCount, &tagByteCount, 16, nonce, 12, packet, byteCount, nil, 0,
                        nil, 0)
                }
            }
        }

        func open() {
            for index in 0..<Batch.count {
                let packet = unsafe slab + index * slot
                unsafe withNonce(first &+ UInt64(index)) { nonce in
                    _ = unsafe CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
                        context, packet, nonce, 12, packet, byteCount, packet + byteCount, 16, nil, 0)
                }
            }
            first &+= UInt64(Batch.count)
        }
    }

    /// The cipher of sessions, in place, with a library in place of BoringSSL.
    @safe
    final class LibraryInPlace: RawAEAD {
        private let cipher: BoringSSLTransportCipher
        private let byteCount: Int
        private let slot: Int
        private let slab: UnsafeMutableRawPointer
        private var first: UInt64 = 0

        init(_ library: TransportLibrary, byteCount: Int) {
            cipher = BoringSSLTransportCipher(key: Bytes32(w0: 3, w1: 3, w2: 3, w3: 3), library: library)
            self.byteCount = byteCount
            slot = (byteCount + 16 + 63) & ~63
            unsafe slab = .allocate(byteCount: slot * Batch.count, alignment: 64)
            unsafe slab.initializeMemory(as: UInt8.self, repeating: 1, count: slot * Batch.count)
        }

        deinit { unsafe slab.deallocate() }

        func seal() {
            for index in 0..<Batch.count {
                let packet = unsafe slab + index * slot
                unsafe cipher.seal(
                    counter: first &+ UInt64(index), source: packet, byteCount: byteCount, destination: packet)
            }
        }

        func open() {
            for index in 0..<Batch.count {
                let packet = unsafe slab + index * slot
                _ = unsafe cipher.open(
                    counter: first &+ UInt64(index), source: packet, sealedByteCount: byteCount + 16,
                    destination: packet)
            }
            first &+= UInt64(Batch.count)
        }
    }

    func rawAEADs(byteCount: Int) -> [(name: String, aead: any RawAEAD)] {
        var list: [(name: String, aead: any RawAEAD)] = [
            ("BoringSSL in place", BoringSSLInPlace(byteCount: byteCount)),
            ("swift-crypto", PublicAPI(byteCount: byteCount)),
        ]
        // Only where the library is installed and the processor suffices.
        if let library = try? TransportAEAD.loadIPsecMB() {
            list.append(("ipsec-mb in place", LibraryInPlace(library, byteCount: byteCount)))
        }
        return list
    }
#else
    func rawAEADs(byteCount: Int) -> [(name: String, aead: any RawAEAD)] {
        [("swift-crypto", PublicAPI(byteCount: byteCount))]
    }
#endif
