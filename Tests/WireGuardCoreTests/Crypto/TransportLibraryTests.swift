// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(CCryptoBoringSSL)
    import CTunnelSystem
    import Testing

    @testable import WireGuardCore

    @Suite("A library in place of BoringSSL")
    struct TransportLibraryTests {
        private static let refusing = unsafe TransportLibrary(
            seal: { _, _, _, _, _, _, _ in false }, open: { _, _, _, _, _, _, _ in -1 })

        @Test("If the library cannot be used, BoringSSL seals and opens")
        func fallback() {
            let key = CryptoTest.bytes32(CryptoTest.counting(32))
            let cipher = BoringSSLTransportCipher(key: key, library: Self.refusing)
            let expected = BoringSSLTransportCipher(key: key, library: nil)
            let text = CryptoTest.counting(100)
            let sealed = cipher.seal(counter: 3, text, inPlace: true)
            #expect(sealed == expected.seal(counter: 3, text, inPlace: true))
            #expect(cipher.open(counter: 3, sealed, inPlace: true) == text)
            #expect(cipher.open(counter: 4, sealed, inPlace: true) == nil)
        }

        @Test("A library that seals nothing, seals wrongly, or accepts a wrong tag gives wrong answers")
        func wrongAnswers() {
            let wrong: [TransportLibrary] = unsafe [
                Self.refusing,
                TransportLibrary(seal: { _, _, _, _, _, _, _ in true }, open: { _, _, _, _, _, _, _ in 1 }),
                TransportLibrary(seal: boringSeal, open: { _, _, _, _, _, _, _ in 1 }),
                TransportLibrary(seal: boringSeal, open: { _, _, _, _, _, _, _ in 0 }),
                TransportLibrary(seal: boringSeal, open: openIgnoringLastByte),
            ]
            for (index, library) in wrong.enumerated() { #expect(!library.givesKnownAnswers(), "library \(index)") }
        }

        @Test("Intel's library is used only with all features of the processor, SAFE_DATA and a passed self-test")
        func features() {
            let needed: [UInt64] = [7, 8, 9, 10, 11, 14, 17, 21]
            let all = needed.reduce(UInt64(0)) { $0 | 1 << $1 }
            #expect(ctunnel_ipsec_mb_is_sufficient(all) && ctunnel_ipsec_mb_is_sufficient(.max))
            for bit in needed { #expect(!ctunnel_ipsec_mb_is_sufficient(.max ^ 1 << bit), "bit \(bit)") }
        }

        @Test(
            "In CI, a machine whose processor suffices has Intel's library",
            .enabled(if: SystemEnvironment.isCI && IPsecMBBackEnd.isSupported, "needs CI=true, and AVX-512 with IFMA"))
        func isInstalled() {
            #expect(IPsecMBBackEnd.library != nil, "fix: scripts/setup test")
        }
    }

    /// A function that seals correctly.
    private func boringSeal(
        key: UnsafeRawPointer?, nonce: UnsafeRawPointer?, source: UnsafeRawPointer?, byteCount: Int,
        authenticated: UnsafeRawPointer?, authenticatedByteCount: Int, destination: UnsafeMutableRawPointer?
    ) -> Bool {
        guard let key = unsafe key, let nonce = unsafe nonce, let destination = unsafe destination else {
            return false
        }
        unsafe BoringSSLBackEnd.seal(
            key: Bytes32(loadingFrom: key), nonce: ChaChaNonce(loadingFrom: nonce),
            plaintext: UnsafeRawBufferPointer(start: source, count: byteCount),
            authenticating: UnsafeRawBufferPointer(start: authenticated, count: authenticatedByteCount),
            into: destination)
        return true
    }

    /// A function that opens correctly, but ignores the last byte of the tag.
    private func openIgnoringLastByte(
        key: UnsafeRawPointer?, nonce: UnsafeRawPointer?, source: UnsafeRawPointer?, byteCount: Int,
        authenticated: UnsafeRawPointer?, authenticatedByteCount: Int, destination: UnsafeMutableRawPointer?
    ) -> CInt {
        guard let key = unsafe key, let nonce = unsafe nonce, let destination = unsafe destination else { return -1 }
        var sealed = unsafe Array(UnsafeRawBufferPointer(start: source, count: byteCount + 16))
        for last in UInt8.min ... .max {
            sealed[byteCount + 15] = last
            let isAuthentic = unsafe sealed.withUnsafeBytes { sealed in
                unsafe BoringSSLBackEnd.open(
                    key: Bytes32(loadingFrom: key), nonce: ChaChaNonce(loadingFrom: nonce), sealed: sealed,
                    authenticating: UnsafeRawBufferPointer(start: authenticated, count: authenticatedByteCount),
                    into: destination)
            }
            if isAuthentic { return 1 }
        }
        unsafe destination.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
        return 0
    }

    private enum SystemEnvironment {
        static let isCI = unsafe getenv("CI") != nil
    }

    @Suite(
        "Intel's multi-buffer library",
        .enabled(if: IPsecMBBackEnd.library != nil, "needs libipsec-mb1 1.3, and AVX-512 with IFMA"))
    struct IPsecMBTests {
        @Test("The library gives the known answers")
        func knownAnswers() throws {
            #expect(try #require(IPsecMBBackEnd.library).givesKnownAnswers())
        }

        @Test("For lengths from 0 to 65,535, the library agrees with BoringSSL at any address and at the end of a page")
        func differences() throws {
            var generator = CryptoTest.Generator(seed: 1305)
            let text = generator.bytes(65_535)
            let library = try #require(IPsecMBBackEnd.library)
            let (near, far) = (try GuardedPages(), try GuardedPages())
            var byteCount = 0
            while byteCount <= 65_535 {
                let key = generator.bytes32()
                let counter = generator.next()
                let header = generator.bytes(Int(generator.next() % 40))
                let tampered = Int(generator.next() % UInt64(byteCount + 16))
                let plaintext = Array(text.prefix(byteCount))
                let boringSSL = BoringSSLTransportCipher(key: key, library: nil)
                let intel = BoringSSLTransportCipher(key: key, library: library)
                let expected = sealed(boringSSL, counter, plaintext, header)
                // At the end of the page, and up to 63 bytes before it; in place, and from place to place.
                for (shift, inPlace) in [(0, true), (0, false), (Int(generator.next() % 64), true)] {
                    let place = unsafe near.end - (byteCount + 16 + shift)
                    let source = unsafe inPlace ? place : far.end - byteCount
                    let isGood = unsafe header.withUnsafeBytes { header in
                        unsafe copy(plaintext, to: source)
                        unsafe intel.seal(
                            counter: counter, source: source, byteCount: byteCount, authenticating: header,
                            destination: place)
                        let isSealed = unsafe UnsafeRawBufferPointer(start: place, count: byteCount + 16)
                            .elementsEqual(expected)
                        let isOpened = unsafe intel.open(
                            counter: counter, source: place, sealedByteCount: byteCount + 16, authenticating: header,
                            destination: source)
                        let isText = unsafe UnsafeRawBufferPointer(start: source, count: byteCount)
                            .elementsEqual(plaintext)
                        unsafe copy(expected, to: place)
                        let changed = unsafe place + tampered
                        let byte = unsafe changed.load(as: UInt8.self)
                        unsafe changed.storeBytes(of: byte ^ 4, as: UInt8.self)
                        let isRefused = unsafe !intel.open(
                            counter: counter, source: place, sealedByteCount: byteCount + 16, authenticating: header,
                            destination: source)
                        let isWiped = unsafe UnsafeRawBufferPointer(start: source, count: byteCount)
                            .allSatisfy { $0 == 0 }
                        return isSealed && isOpened && isText && isRefused && isWiped
                    }
                    #expect(isGood, "\(byteCount) bytes, \(shift) before the end, in place: \(inPlace)")
                }
                byteCount += byteCount < 1600 ? 1 : 1 + Int(generator.next() % 1700)
            }
        }

        private func sealed(
            _ cipher: BoringSSLTransportCipher, _ counter: UInt64, _ plaintext: [UInt8], _ header: [UInt8]
        ) -> [UInt8] {
            var out = plaintext + [UInt8](repeating: 0, count: 16)
            unsafe out.withUnsafeMutableBytes { out in
                guard let start = out.baseAddress else { return }
                unsafe header.withUnsafeBytes { header in
                    unsafe cipher.seal(
                        counter: counter, source: start, byteCount: plaintext.count, authenticating: header,
                        destination: start)
                }
            }
            return out
        }

        private func copy(_ bytes: [UInt8], to place: UnsafeMutableRawPointer) {
            unsafe UnsafeMutableRawBufferPointer(start: place, count: bytes.count).copyBytes(from: bytes)
        }
    }

    /// Memory for a message of 65,535 bytes that ends at a protected page: an access beyond it ends the process.
    @safe
    private final class GuardedPages {
        private static let byteCount = 2 << 16
        private let base: UnsafeMutableRawPointer

        /// The address of the protected page.
        var end: UnsafeMutableRawPointer { unsafe base + Self.byteCount }

        init() throws {
            let size = Self.byteCount + 65_536
            let mapped = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            unsafe base = try #require(unsafe mapped == MAP_FAILED ? nil : mapped)
            try #require(unsafe mprotect(base + Self.byteCount, 65_536, PROT_NONE) == 0)
        }

        deinit { unsafe munmap(base, Self.byteCount + 65_536) }
    }
#endif
