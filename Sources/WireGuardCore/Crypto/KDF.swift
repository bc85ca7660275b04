// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// HMAC (RFC 2104) with BLAKE2s as its hash.
package enum HMACBlake2s {
    /// HMAC(key, data). A key of more than 64 bytes is hashed first, as RFC 2104 specifies.
    package static func authenticate(key: UnsafeRawBufferPointer, _ data: UnsafeRawBufferPointer) -> Bytes32 {
        var keyed = unsafe Keyed(key: key)
        let tag = keyed.authenticate { unsafe $0.update(data) }
        keyed.wipe()
        return tag
    }

    /// Both hash states after their padded keys, so that one key can be used for several messages.
    struct Keyed {
        private var inner = Blake2s()
        private var outer = Blake2s()

        private init() {}

        init(key: UnsafeRawBufferPointer) {
            guard key.count <= Blake2s.blockByteCount else {
                var short = unsafe Blake2s.hash(key)
                self.init(key: short)
                short.wipe()
                return
            }
            self.init()
            var pad: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
            unsafe withUnsafeMutableBytes(of: &pad) { pad in
                unsafe pad.copyMemory(from: key)
                for index in pad.indices { unsafe pad[index] ^= 0x36 }
                unsafe inner.update(UnsafeRawBufferPointer(pad))
                for index in pad.indices { unsafe pad[index] ^= 0x36 ^ 0x5c }
                unsafe outer.update(UnsafeRawBufferPointer(pad))
                unsafe WireGuardCore.wipe(pad)
            }
        }

        init(key: Bytes32) {
            unsafe self = key.withBytes { unsafe Keyed(key: $0) }
        }

        /// Returns the HMAC of the message that `feed` adds to the inner hash.
        func authenticate(_ feed: (inout Blake2s) -> Void) -> Bytes32 {
            var inner = inner
            var outer = outer
            feed(&inner)
            var digest = inner.finalize32()
            outer.update(digest)
            let tag = outer.finalize32()
            digest.wipe()
            inner.wipe()
            outer.wipe()
            return tag
        }

        mutating func wipe() {
            inner.wipe()
            outer.wipe()
        }
    }
}

/// Key derivation of the WireGuard paper, section 5.4: HKDF (RFC 5869) over ``HMACBlake2s``, one to three outputs.
package enum KDF {
    /// KDF1(key, input).
    package static func derive1(key: Bytes32, input: UnsafeRawBufferPointer) -> Bytes32 {
        var expander = unsafe expander(key: key, input: input)
        let first = expander.authenticate { $0.update(byte: 1) }
        expander.wipe()
        return first
    }

    /// KDF2(key, input).
    package static func derive2(key: Bytes32, input: UnsafeRawBufferPointer) -> (Bytes32, Bytes32) {
        var expander = unsafe expander(key: key, input: input)
        let first = expander.authenticate { $0.update(byte: 1) }
        let second = next(expander, after: first, index: 2)
        expander.wipe()
        return (first, second)
    }

    /// KDF3(key, input).
    package static func derive3(key: Bytes32, input: UnsafeRawBufferPointer) -> (Bytes32, Bytes32, Bytes32) {
        var expander = unsafe expander(key: key, input: input)
        let first = expander.authenticate { $0.update(byte: 1) }
        let second = next(expander, after: first, index: 2)
        let third = next(expander, after: second, index: 3)
        expander.wipe()
        return (first, second, third)
    }

    /// KDF1(key, input).
    package static func derive1(key: Bytes32, input: Bytes32) -> Bytes32 {
        unsafe input.withBytes { unsafe derive1(key: key, input: $0) }
    }

    /// KDF2(key, input).
    package static func derive2(key: Bytes32, input: Bytes32) -> (Bytes32, Bytes32) {
        unsafe input.withBytes { unsafe derive2(key: key, input: $0) }
    }

    /// KDF3(key, input).
    package static func derive3(key: Bytes32, input: Bytes32) -> (Bytes32, Bytes32, Bytes32) {
        unsafe input.withBytes { unsafe derive3(key: key, input: $0) }
    }

    /// HMAC keyed with τ0 = HMAC(key, input).
    private static func expander(key: Bytes32, input: UnsafeRawBufferPointer) -> HMACBlake2s.Keyed {
        var extractor = HMACBlake2s.Keyed(key: key)
        var extracted = extractor.authenticate { unsafe $0.update(input) }
        let expander = HMACBlake2s.Keyed(key: extracted)
        extracted.wipe()
        extractor.wipe()
        return expander
    }

    /// τi = HMAC(τ0, τi−1 ‖ i).
    private static func next(_ expander: HMACBlake2s.Keyed, after previous: Bytes32, index: UInt8) -> Bytes32 {
        expander.authenticate {
            $0.update(previous)
            $0.update(byte: index)
        }
    }
}
