// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An initiation that this side received, before and after the peer is identified.
///
/// The owner must call ``wipe()`` at the end. Source: WireGuard paper, sections 5.4.2 and 5.4.3.
package struct ReceivedInitiation: ~Copyable {
    /// The claimed initiator. ``openTimestamp(staticStatic:from:)`` verifies the claim.
    package let initiator: PublicKey
    /// The sender's index, to be used in the response.
    package let remoteIndex: UInt32
    private(set) var state: SymmetricState
    private let ephemeral: Bytes32

    /// Decrypts the static key in an initiation of 148 bytes whose mac1 was verified.
    /// - Returns: `nil` if it is not authentic or its ephemeral key is a low-order point.
    package init?(opening message: UnsafeRawPointer, identity: Identity) {
        var state = SymmetricState(initialHash: identity.initialHash)
        defer { state.wipe() }
        let ephemeral = unsafe Bytes32(loadingFrom: message + Message.Initiation.ephemeral)
        state.mixKey(ephemeral)
        state.mixHash(ephemeral)

        guard var shared = identity.sharedSecret(with: ephemeral) else { return nil }
        var key = state.mixKeyAndDerive(shared)
        shared.wipe()
        defer { key.wipe() }

        let sealed = unsafe UnsafeRawBufferPointer(
            start: message + Message.Initiation.sealedStatic, count: Message.Initiation.sealedStaticByteCount)
        let key32 = unsafe withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { plain -> Bytes32? in
            guard let base = plain.baseAddress else { return nil }
            guard unsafe state.openAndHash(sealed, key: key, into: base) else { return nil }
            return unsafe Bytes32(loadingFrom: base)
        }
        guard let key32 else { return nil }
        initiator = PublicKey(key32)
        remoteIndex = unsafe message.loadLittleEndian32(at: Message.Initiation.sender)
        self.state = state
        self.ephemeral = ephemeral
    }

    /// Overwrites the state of the handshake. A deinit could not do this, because it would only see a copy.
    package mutating func wipe() {
        state.wipe()
    }

    /// Decrypts the timestamp, which proves that the initiator has the private key of the static key that it claims.
    /// - Returns: `nil` if it is not authentic.
    package mutating func openTimestamp(staticStatic: Bytes32, from message: UnsafeRawPointer) -> TAI64N? {
        var key = state.mixKeyAndDerive(staticStatic)
        defer { key.wipe() }
        let sealed = unsafe UnsafeRawBufferPointer(
            start: message + Message.Initiation.sealedTimestamp, count: Message.Initiation.sealedTimestampByteCount)
        return unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 8) { plain -> TAI64N? in
            guard let base = plain.baseAddress else { return nil }
            guard unsafe state.openAndHash(sealed, key: key, into: base) else { return nil }
            return unsafe TAI64N(loadingFrom: base)
        }
    }

    /// Writes the response after the timestamp was decrypted: its first 60 bytes; the MACs are added later.
    /// - Returns: The transport keys (the sending key first), which the caller must wipe; `nil` if one of the
    ///   initiator's keys is a low-order point.
    package mutating func respond(
        localIndex: UInt32, ephemeral own: Bytes32, presharedKey: PresharedKey?, into message: UnsafeMutableRawPointer
    ) -> HandshakeResult? {
        unsafe message.storeLittleEndian(MessageKind.response.rawValue, at: 0)
        unsafe message.storeLittleEndian(localIndex, at: Message.Response.sender)
        unsafe message.storeLittleEndian(remoteIndex, at: Message.Response.receiver)

        let ownPublic = X25519.publicKey(for: own)
        unsafe ownPublic.store(to: message + Message.Response.ephemeral)
        state.mixKey(ownPublic)
        state.mixHash(ownPublic)

        guard var ee = X25519.sharedSecret(secret: own, publicKey: ephemeral) else { return nil }
        state.mixKey(ee)
        ee.wipe()
        guard var se = X25519.sharedSecret(secret: own, publicKey: Bytes32(initiator)) else { return nil }
        state.mixKey(se)
        se.wipe()

        var key = state.mixPresharedKey(presharedKey)
        defer { key.wipe() }
        unsafe state.sealAndHash(
            UnsafeRawBufferPointer(start: nil, count: 0), key: key, into: message + Message.Response.sealedEmpty)

        var (receive, send) = state.split()
        defer {
            receive.wipe()
            send.wipe()
        }
        return HandshakeResult(sendKey: send, receiveKey: receive, remoteIndex: remoteIndex)
    }
}
