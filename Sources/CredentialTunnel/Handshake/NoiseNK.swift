// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// Noise_NKpsk2_25519_ChaChaPoly_BLAKE2s (Noise specification, revision 34, sections 5, 7.4 and 9), built from the
/// parts of WireGuard's handshake.
///
/// ```
/// <- s
/// ...
/// -> e, es
/// <- e, ee, psk
/// ```
///
/// The client knows the server's static key, so only the owner of the private key can respond. The pre-shared key is
/// mixed in last.
enum NoiseNK {
    /// The protocol's name: the input of the first hash.
    static let name: StaticString = "Noise_NKpsk2_25519_ChaChaPoly_BLAKE2s"
    /// The bytes of a message in addition to its payload: an ephemeral key and a tag.
    static let overhead = 32 + Layout.tagByteCount

    /// The keys that a handshake produces: the two keys of Split(), and a third output of the same derivation, the
    /// chain for the next handshake of the session. The owner wipes them.
    struct Keys {
        var toServer: Bytes32
        var toClient: Bytes32
        var chain: Bytes32

        init(_ state: SymmetricState) {
            (toServer, toClient, chain) = state.splitWithChain()
        }

        mutating func wipe() {
            toServer.wipe()
            toClient.wipe()
            chain.wipe()
        }
    }

    /// The state before the first message.
    fileprivate static func start(prologue: [UInt8], server: Bytes32) -> SymmetricState {
        var state = SymmetricState(protocolName: name)
        unsafe prologue.withUnsafeBytes { unsafe state.mixHash($0) }
        state.mixHash(server)
        return state
    }
}

/// The client's side of a handshake that it began.
final class NoiseInitiator {
    private var state: SymmetricState
    private var ephemeral: Bytes32
    /// The first message.
    let message: [UInt8]

    /// - Returns: `nil` if the server's key is a low-order point, with which no handshake is possible.
    init?(prologue: [UInt8], server: PublicKey, ephemeral: Bytes32, payload: [UInt8]) {
        let server = Bytes32(server)
        var state = NoiseNK.start(prologue: prologue, server: server)
        defer { state.wipe() }
        var message = [UInt8](repeating: 0, count: NoiseNK.overhead + payload.count)
        let own = X25519.publicKey(for: ephemeral)
        state.mixHash(own)
        state.mixKey(own)
        guard var es = X25519.sharedSecret(secret: ephemeral, publicKey: server) else { return nil }
        var key = state.mixKeyAndDerive(es)
        es.wipe()
        unsafe message.withUnsafeMutableBytes { out in
            guard let base = out.baseAddress else { return }
            unsafe own.store(to: base)
            unsafe payload.withUnsafeBytes { unsafe state.sealAndHash($0, key: key, into: base + 32) }
        }
        key.wipe()
        self.state = state
        self.ephemeral = ephemeral
        self.message = message
    }

    deinit {
        state.wipe()
        ephemeral.wipe()
    }

    /// Opens the second message.
    /// - Returns: The payload and the keys, or `nil` if the message is not authentic. After `nil`, another message can
    ///   still be opened.
    func finish(_ message: [UInt8], presharedKey: Bytes32) -> (payload: [UInt8], keys: NoiseNK.Keys)? {
        guard message.count >= NoiseNK.overhead else { return nil }
        var state = self.state
        defer { state.wipe() }
        var payload = [UInt8](repeating: 0, count: message.count - 32)
        let isAuthentic = unsafe message.withUnsafeBytes { message in
            guard let base = message.baseAddress else { return false }
            let theirs = unsafe Bytes32(loadingFrom: base)
            state.mixHash(theirs)
            state.mixKey(theirs)
            guard var ee = X25519.sharedSecret(secret: ephemeral, publicKey: theirs) else { return false }
            state.mixKey(ee)
            ee.wipe()
            var key = state.mixKeyAndHash(presharedKey)
            defer { key.wipe() }
            return unsafe payload.withUnsafeMutableBytes { out in
                guard let out = out.baseAddress else { return false }
                let sealed = unsafe UnsafeRawBufferPointer(rebasing: message[32...])
                return unsafe state.openAndHash(sealed, key: key, into: out)
            }
        }
        guard isAuthentic else { return nil }
        payload.removeLast(Layout.tagByteCount)
        return (payload, NoiseNK.Keys(state))
    }
}

/// The server's side of a handshake, between its two messages. The owner calls ``wipe()`` at the end.
struct NoiseResponder: ~Copyable {
    private var state: SymmetricState
    private let theirs: Bytes32

    /// Opens the first message, and ignores its payload.
    /// - Returns: `nil` if it is not authentic.
    init?(prologue: [UInt8], identity: Identity, message: [UInt8]) {
        guard message.count >= NoiseNK.overhead else { return nil }
        var state = NoiseNK.start(prologue: prologue, server: Bytes32(identity.publicKey))
        defer { state.wipe() }
        var payload = [UInt8](repeating: 0, count: message.count - 32)
        let opened = unsafe message.withUnsafeBytes { message -> Bytes32? in
            guard let base = message.baseAddress else { return nil }
            let theirs = unsafe Bytes32(loadingFrom: base)
            state.mixHash(theirs)
            state.mixKey(theirs)
            guard var es = identity.sharedSecret(with: theirs) else { return nil }
            var key = state.mixKeyAndDerive(es)
            es.wipe()
            defer { key.wipe() }
            let isAuthentic = unsafe payload.withUnsafeMutableBytes { out in
                guard let out = out.baseAddress else { return false }
                let sealed = unsafe UnsafeRawBufferPointer(rebasing: message[32...])
                return unsafe state.openAndHash(sealed, key: key, into: out)
            }
            return isAuthentic ? theirs : nil
        }
        guard let opened else { return nil }
        theirs = opened
        self.state = state
    }

    /// Overwrites the handshake's state. This is not done in a deinit, which would only overwrite a copy.
    mutating func wipe() {
        state.wipe()
    }

    /// Creates the second message.
    /// - Returns: The message and the keys, or `nil` if the client's ephemeral key is a low-order point.
    mutating func respond(
        ephemeral: Bytes32, presharedKey: Bytes32, payload: [UInt8]
    ) -> (message: [UInt8], keys: NoiseNK.Keys)? {
        let own = X25519.publicKey(for: ephemeral)
        state.mixHash(own)
        state.mixKey(own)
        guard var ee = X25519.sharedSecret(secret: ephemeral, publicKey: theirs) else { return nil }
        state.mixKey(ee)
        ee.wipe()
        var key = state.mixKeyAndHash(presharedKey)
        defer { key.wipe() }
        var message = [UInt8](repeating: 0, count: NoiseNK.overhead + payload.count)
        unsafe message.withUnsafeMutableBytes { out in
            guard let base = out.baseAddress else { return }
            unsafe own.store(to: base)
            unsafe payload.withUnsafeBytes { unsafe state.sealAndHash($0, key: key, into: base + 32) }
        }
        return (message, NoiseNK.Keys(state))
    }
}
