// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
    import Testing

    @testable import WireGuardCore

    // Memory that was freed is read through the kernel: the optimiser cannot know of it, and the language forbids the
    // direct way. What malloc writes into a free block may replace some of the bytes, but it never writes the pattern.
    @Suite("Secrets in freed memory", .enabled(if: ProcessMemory.isReadable, "needs a readable /proc/self/mem"))
    struct SecretWipeTests {
        @Test("A secret's bytes are wiped when its last owner is released")
        func secret() {
            let memory = ProcessMemory(byteCount: Secret.byteCount)
            var secret: Secret? = unsafe Secret { unsafe $0.initializeMemory(as: UInt8.self, repeating: 0xa5) }
            let address = unsafe secret?.withBytes { Int(bitPattern: $0.baseAddress) } ?? 0
            #expect(memory.longestRun(at: address) == 32)
            secret = nil
            #expect(memory.longestRun(at: address) < 8)
        }

        @Test("A private key's bytes stay while a copy lives, and go with it")
        func privateKey() {
            let memory = ProcessMemory(byteCount: Secret.byteCount)
            var key = PrivateKey(bytes: [UInt8](repeating: 0xa5, count: 32))
            var copy = key
            let address = unsafe key?.secret.withBytes { Int(bitPattern: $0.baseAddress) } ?? 0
            key = nil
            #expect(memory.longestRun(at: address) == 32)
            #expect(copy?.isZero == false)
            copy = nil
            #expect(memory.longestRun(at: address) < 8)
        }

        #if canImport(CCryptoBoringSSL)
            @Test("A cipher's key is wiped when its last owner is released")
            func cipher() {
                let memory = ProcessMemory(byteCount: 128)
                let key = CryptoTest.bytes32([UInt8](repeating: 0xa5, count: 32))
                var cipher: BoringSSLTransportCipher? = BoringSSLTransportCipher(key: key, library: nil)
                let address = unsafe (cipher?.context).map { Int(bitPattern: $0) } ?? 0
                #expect(memory.longestRun(at: address) == 32)
                cipher = nil
                #expect(memory.longestRun(at: address) < 8)
            }

            @Test("The copy of a cipher's key for a library is wiped when its last owner is released")
            func libraryKey() {
                let memory = ProcessMemory(byteCount: 32)
                let key = CryptoTest.bytes32([UInt8](repeating: 0xa5, count: 32))
                let library = unsafe TransportLibrary(
                    seal: { _, _, _, _, _, _, _ in false }, open: { _, _, _, _, _, _, _ in -1 })
                var cipher: BoringSSLTransportCipher? = BoringSSLTransportCipher(key: key, library: library)
                let address = unsafe (cipher?.library?.key).map { Int(bitPattern: $0) } ?? 0
                #expect(memory.longestRun(at: address) == 32)
                cipher = nil
                #expect(memory.longestRun(at: address) < 8)
            }
        #endif
    }

    /// Reads this process's memory through /proc, into a buffer that is allocated beforehand.
    @safe
    private final class ProcessMemory {
        static let isReadable = unsafe access("/proc/self/mem", R_OK) == 0

        private let file = unsafe open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        private let buffer: UnsafeMutableRawBufferPointer

        init(byteCount: Int) {
            unsafe buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: byteCount, alignment: 16)
        }

        deinit {
            unsafe buffer.deallocate()
            close(file)
        }

        /// The longest run of 0xa5 in the bytes at `address`; -1 when they cannot be read.
        func longestRun(at address: Int) -> Int {
            let count = unsafe pread(file, buffer.baseAddress, buffer.count, address)
            guard unsafe count == buffer.count else { return -1 }
            return unsafe CryptoTest.longestRun(of: 0xa5, in: Array(buffer))
        }
    }
#endif
