// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
    import Testing
    import WireGuardCore

    @testable import CredentialTunnel

    // The tests read freed memory through the kernel, like the tests of WireGuardCore's secrets. malloc may overwrite
    // some bytes of a free block, but never with the pattern.
    @Suite(
        "Secrets of the login tunnel in freed memory",
        .enabled(if: ProcessMemory.isReadable, "needs a readable /proc/self/mem"))
    struct SecretWipeTests {
        private static let pattern = [UInt8](repeating: 0xa5, count: 32)

        @Test("A pre-shared key is wiped with its last owner")
        func sharedKeys() {
            let memory = ProcessMemory(byteCount: 256)
            var keys: SharedKeys? = SharedKeys(
                server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared(Self.pattern))
            let address = memory.address(of: keys)
            #expect(memory.longestRun(at: address) >= 32)
            keys = nil
            #expect(memory.longestRun(at: address) < 8)
        }

        @Test("An ephemeral key is wiped with its handshake")
        func ephemeral() {
            let memory = ProcessMemory(byteCount: 160)
            var noise = NoiseInitiator(
                prologue: [], server: FixedKeys.privateKey().publicKey,
                ephemeral: unsafe Bytes32 { unsafe $0.copyBytes(from: Self.pattern) }, payload: [])
            let address = memory.address(of: noise)
            #expect(memory.longestRun(at: address) >= 32)
            noise = nil
            #expect(memory.longestRun(at: address) < 8)
        }

        @Test("The chain key of a session is wiped with the session")
        func chain() {
            let memory = ProcessMemory(byteCount: 160)
            var keys = NoiseNK.Keys(SymmetricState(protocolName: NoiseNK.name))
            keys.chain = unsafe Bytes32 { unsafe $0.copyBytes(from: Self.pattern) }
            var session: TunnelSession? = TunnelSession(
                keys, isClient: true, local: 1, remote: 2, createdAt: Instant(nanoseconds: 0))
            let address = memory.address(of: session)
            #expect(memory.longestRun(at: address) >= 32)
            session = nil
            #expect(memory.longestRun(at: address) < 8)
        }
    }

    /// Reads this process's memory through /proc, into a preallocated buffer.
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

        func address(of object: (some AnyObject)?) -> Int {
            object.map { unsafe Int(bitPattern: Unmanaged.passUnretained($0).toOpaque()) } ?? 0
        }

        /// Returns the length of the longest run of 0xa5 in the bytes at `address`, or -1 if they cannot be read.
        func longestRun(at address: Int) -> Int {
            let count = unsafe pread(file, buffer.baseAddress, buffer.count, address)
            guard unsafe count == buffer.count else { return -1 }
            return unsafe buffer.reduce(into: (longest: 0, current: 0)) { runs, byte in
                runs.current = byte == 0xa5 ? runs.current + 1 : 0
                runs.longest = max(runs.longest, runs.current)
            }.longest
        }
    }
#endif
