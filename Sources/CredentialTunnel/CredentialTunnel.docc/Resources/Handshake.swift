// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation

/// The client's side of a key agreement with a server whose public key is known.
struct Handshake {
    private let server: Curve25519.KeyAgreement.PublicKey
    private let ephemeral = Curve25519.KeyAgreement.PrivateKey()
    private let index = UInt32.random(in: 0...UInt32.max)

    init(with server: Curve25519.KeyAgreement.PublicKey) { self.server = server }

    /// The client's message: a header, a key for one use, and zeros, so that no response is longer than its request.
    var hello: [UInt8] {
        Header(code: .clientHello, index: index).bytes + Array(ephemeral.publicKey.rawRepresentation)
            + [UInt8](repeating: 0, count: 88)
    }

    /// Returns the session for the server's message, or `nil` if the sender does not have the server's private key.
    func session(from reply: [UInt8]) -> Session? {
        guard let header = try? MessageDecoder.header(of: reply), header.code == .serverHello, header.index == index,
            let theirs = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: reply[8..<40]),
            let lasting = try? ephemeral.sharedSecretFromKeyAgreement(with: server),
            let fresh = try? ephemeral.sharedSecretFromKeyAgreement(with: theirs)
        else { return nil }
        let keys = Self.keys(lasting, fresh, transcript: Array(hello[..<40] + reply[..<40]))
        guard let nonce = Session.nonce(0),
            let box = try? ChaChaPoly.SealedBox(nonce: nonce, ciphertext: reply[40..<44], tag: reply[44...]),
            let name = try? ChaChaPoly.open(box, using: keys.toClient, authenticating: reply[..<40])
        else { return nil }
        let serverIndex = name.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return Session(index: serverIndex, sealing: keys.toServer, opening: keys.toClient)
    }

    /// Derives the keys from two secrets: one depends on the server's static key, and one cannot be derived again
    /// later.
    static func keys(
        _ lasting: SharedSecret, _ fresh: SharedSecret, transcript: [UInt8]
    ) -> (toServer: SymmetricKey, toClient: SymmetricKey) {
        let first = lasting.hkdfDerivedSymmetricKey(
            using: SHA256.self, salt: transcript, sharedInfo: [UInt8](), outputByteCount: 32)
        let salt = Array(HMAC<SHA256>.authenticationCode(for: transcript, using: first))
        func key(_ name: String) -> SymmetricKey {
            fresh.hkdfDerivedSymmetricKey(
                using: SHA256.self, salt: salt, sharedInfo: Array(name.utf8), outputByteCount: 32)
        }
        return (key("to server"), key("to client"))
    }
}
