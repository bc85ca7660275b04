// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The state of a handshake: chaining key and hash (Noise specification, section 5.2).
package struct SymmetricState {
    package private(set) var chainingKey: Bytes32
    package private(set) var hash: Bytes32

    /// The state before the first message of a handshake whose responder has the given initial hash.
    init(initialHash: Bytes32) {
        chainingKey = NoiseConstants.initialChainingKey
        hash = initialHash
    }

    /// The state before the first message of another protocol. Its name must be longer than a hash, and is hashed
    /// (Noise specification, section 5.2, InitializeSymmetric).
    package init(protocolName: StaticString) {
        precondition(protocolName.utf8CodeUnitCount > Bytes32.byteCount, "a name as short as a hash is padded instead")
        hash = unsafe Blake2s.hash(
            UnsafeRawBufferPointer(start: protocolName.utf8Start, count: protocolName.utf8CodeUnitCount))
        chainingKey = hash
    }

    package mutating func mixHash(_ value: Bytes32) {
        hash = Blake2s.hash(hash, value)
    }

    package mutating func mixHash(_ bytes: UnsafeRawBufferPointer) {
        hash = unsafe Blake2s.hash(hash, bytes)
    }

    /// Mixes input into the chaining key only.
    package mutating func mixKey(_ input: Bytes32) {
        chainingKey = KDF.derive1(key: chainingKey, input: input)
    }

    /// Mixes input into the chaining key and returns a message key, which the caller must wipe.
    package mutating func mixKeyAndDerive(_ input: Bytes32) -> Bytes32 {
        let key: Bytes32
        (chainingKey, key) = KDF.derive2(key: chainingKey, input: input)
        return key
    }

    /// Mixes a pre-shared key into the chaining key and the hash, and returns a message key, which the caller must
    /// wipe.
    package mutating func mixKeyAndHash(_ input: Bytes32) -> Bytes32 {
        let temporary: Bytes32
        let key: Bytes32
        (chainingKey, temporary, key) = KDF.derive3(key: chainingKey, input: input)
        mixHash(temporary)
        return key
    }

    /// Seals `plaintext` under `key` with the hash as associated data, writes it to `out` and mixes it into the hash.
    package mutating func sealAndHash(
        _ plaintext: UnsafeRawBufferPointer, key: Bytes32, into out: UnsafeMutableRawPointer
    ) {
        unsafe hash.withBytes { ad in
            unsafe ChaChaPoly.seal(key: key, counter: 0, plaintext: plaintext, authenticating: ad, into: out)
        }
        unsafe mixHash(UnsafeRawBufferPointer(start: out, count: plaintext.count + Message.tagByteCount))
    }

    /// Opens `sealed` under `key`, writes the plaintext to `out` and mixes the ciphertext into the hash.
    /// - Returns: Whether the message was authentic. If not, the state must not be used further.
    package mutating func openAndHash(_ sealed: UnsafeRawBufferPointer, key: Bytes32, into out: UnsafeMutableRawPointer)
        -> Bool
    {
        let opened = unsafe hash.withBytes { ad in
            unsafe ChaChaPoly.open(key: key, counter: 0, sealed: sealed, authenticating: ad, into: out)
        }
        guard opened else { return false }
        unsafe mixHash(sealed)
        return true
    }

    /// Returns the two transport keys. The initiator sends with the first. The caller must wipe them.
    package func split() -> (Bytes32, Bytes32) {
        unsafe KDF.derive2(key: chainingKey, input: UnsafeRawBufferPointer(start: nil, count: 0))
    }

    /// Returns the two transport keys of ``split()`` and a third output of the same derivation, for data bound to this
    /// handshake. The caller must wipe all three.
    package func splitWithChain() -> (Bytes32, Bytes32, chain: Bytes32) {
        let (first, second, third) = unsafe KDF.derive3(
            key: chainingKey, input: UnsafeRawBufferPointer(start: nil, count: 0))
        return (first, second, third)
    }

    package mutating func wipe() {
        chainingKey.wipe()
        hash.wipe()
    }
}
