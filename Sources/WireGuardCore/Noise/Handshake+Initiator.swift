// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A handshake that this side started, between the initiation and the response.
///
/// Source: WireGuard paper, sections 5.4.2 and 5.4.3.
package final class InitiatorHandshake {
    /// The receiver index that the response must contain.
    let localIndex: UInt32
    private var state: SymmetricState
    private var ephemeral: Bytes32

    /// Writes the initiation (its first 116 bytes; the MACs follow later) and stores the state for the response.
    /// - Returns: `nil` if the peer's key is a low-order point, with which no handshake is possible.
    package init?(
        identity: Identity, responder: PublicKey, staticStatic: Bytes32, localIndex: UInt32, ephemeral: Bytes32,
        timestamp: TAI64N, into message: UnsafeMutableRawPointer
    ) {
        let responderKey = Bytes32(responder)
        self.localIndex = localIndex
        self.ephemeral = ephemeral
        state = SymmetricState(initialHash: NoiseConstants.initialHash(responder: responderKey))

        unsafe message.storeLittleEndian(MessageKind.initiation.rawValue, at: 0)
        unsafe message.storeLittleEndian(localIndex, at: Message.Initiation.sender)

        let ephemeralPublic = X25519.publicKey(for: ephemeral)
        unsafe ephemeralPublic.store(to: message + Message.Initiation.ephemeral)
        state.mixKey(ephemeralPublic)
        state.mixHash(ephemeralPublic)

        guard var shared = X25519.sharedSecret(secret: ephemeral, publicKey: responderKey) else { return nil }
        var key = state.mixKeyAndDerive(shared)
        shared.wipe()
        unsafe Bytes32(identity.publicKey).withBytes { own in
            unsafe state.sealAndHash(own, key: key, into: message + Message.Initiation.sealedStatic)
        }

        key = state.mixKeyAndDerive(staticStatic)
        unsafe withUnsafeTemporaryAllocation(byteCount: TAI64N.byteCount, alignment: 8) { plain in
            guard let base = plain.baseAddress else { return }
            unsafe timestamp.store(to: base)
            unsafe state.sealAndHash(
                UnsafeRawBufferPointer(plain), key: key, into: message + Message.Initiation.sealedTimestamp)
        }
        key.wipe()
    }

    deinit {
        state.wipe()
        ephemeral.wipe()
    }

    /// Processes a response of 92 bytes whose receiver index is ``localIndex``.
    /// - Returns: The transport keys (the sending key first), which the caller must wipe, and the responder's index;
    ///   `nil` if the response is not authentic. Another response can then still complete the handshake.
    package func finish(
        response: UnsafeRawPointer, identity: Identity, presharedKey: PresharedKey?
    ) -> HandshakeResult? {
        var state = self.state
        defer { state.wipe() }

        let theirs = unsafe Bytes32(loadingFrom: response + Message.Response.ephemeral)
        state.mixKey(theirs)
        state.mixHash(theirs)

        guard var ee = X25519.sharedSecret(secret: ephemeral, publicKey: theirs) else { return nil }
        state.mixKey(ee)
        ee.wipe()
        guard var se = identity.sharedSecret(with: theirs) else { return nil }
        state.mixKey(se)
        se.wipe()

        var key = state.mixPresharedKey(presharedKey)
        defer { key.wipe() }
        let sealed = unsafe UnsafeRawBufferPointer(
            start: response + Message.Response.sealedEmpty, count: Message.Response.sealedEmptyByteCount)
        let opened = unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 8) { nothing in
            guard let base = nothing.baseAddress else { return false }
            return unsafe state.openAndHash(sealed, key: key, into: base)
        }
        guard opened else { return nil }

        var (send, receive) = state.split()
        defer {
            send.wipe()
            receive.wipe()
        }
        let remoteIndex = unsafe response.loadLittleEndian32(at: Message.Response.sender)
        return HandshakeResult(sendKey: send, receiveKey: receive, remoteIndex: remoteIndex)
    }
}

/// The result of a handshake, on either side.
package struct HandshakeResult {
    package var sendKey: Bytes32
    package var receiveKey: Bytes32
    package var remoteIndex: UInt32

    package mutating func wipe() {
        sendKey.wipe()
        receiveKey.wipe()
    }
}

extension SymmetricState {
    /// Mixes in the pre-shared key. No key is equivalent to a key of 32 zero bytes.
    mutating func mixPresharedKey(_ presharedKey: PresharedKey?) -> Bytes32 {
        guard let presharedKey else { return mixKeyAndHash(.zero) }
        var value = Bytes32(copying: presharedKey.secret)
        defer { value.wipe() }
        return mixKeyAndHash(value)
    }
}
