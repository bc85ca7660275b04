// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(CCryptoBoringSSL)
    import CTunnelSystem

    @testable import WireGuardCore

    /// Intel's multi-buffer library, for the vectors of single messages. X25519 is BoringSSL's.
    enum IPsecMBBackEnd: CryptoPrimitives {
        private static let loadResult = ctunnel_ipsec_mb_load()

        /// The library; `nil` if this machine does not have it or has no use for it.
        static let library: TransportLibrary? =
            loadResult == CInt(CTUNNEL_IPSEC_MB_LOADED.rawValue)
            ? unsafe TransportLibrary(seal: ctunnel_ipsec_mb_seal, open: ctunnel_ipsec_mb_open) : nil

        /// True if this platform and this processor can run the library.
        static let isSupported = loadResult != CInt(CTUNNEL_IPSEC_MB_NO_PROCESSOR.rawValue)

        static func seal(
            key: Bytes32, nonce: ChaChaNonce, plaintext: UnsafeRawBufferPointer,
            authenticating: UnsafeRawBufferPointer, into out: UnsafeMutableRawPointer
        ) {
            let isSealed = unsafe key.withBytes { key in
                unsafe nonce.withBytes { nonce in
                    unsafe ctunnel_ipsec_mb_seal(
                        key.baseAddress, nonce, plaintext.baseAddress ?? UnsafeRawPointer(out), plaintext.count,
                        authenticating.baseAddress, authenticating.count, out)
                }
            }
            precondition(isSealed, "the library was loaded")
        }

        static func open(
            key: Bytes32, nonce: ChaChaNonce, sealed: UnsafeRawBufferPointer, authenticating: UnsafeRawBufferPointer,
            into out: UnsafeMutableRawPointer
        ) -> Bool {
            guard sealed.count >= ChaChaPoly.tagByteCount else { return false }
            let result = unsafe key.withBytes { key in
                unsafe nonce.withBytes { nonce in
                    unsafe ctunnel_ipsec_mb_open(
                        key.baseAddress, nonce, sealed.baseAddress, sealed.count - ChaChaPoly.tagByteCount,
                        authenticating.baseAddress, authenticating.count, out)
                }
            }
            precondition(result >= 0, "the library was loaded")
            return result == 1
        }

        static func publicKey(for secret: Bytes32) -> Bytes32 { BoringSSLBackEnd.publicKey(for: secret) }

        static func sharedSecret(secret: Bytes32, publicKey: Bytes32) -> Bytes32? {
            BoringSSLBackEnd.sharedSecret(secret: secret, publicKey: publicKey)
        }
    }
#endif
