// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation

/// The keys of a session, one for each direction, with their counters.
struct Session: Sendable {
    /// The receiver's index of the session.
    let index: UInt32
    let sealing: SymmetricKey
    let opening: SymmetricKey
    private(set) var sent: UInt64 = 0
    private(set) var received: UInt64 = 0

    /// Returns a datagram whose body is encrypted and whose header is authenticated.
    mutating func seal(_ code: PacketCode, _ body: [UInt8]) -> [UInt8]? {
        // Reusing a nonce under one key would reveal both bodies, so increment the counter first. The hello used 0.
        sent += 1
        let header = Header(code: code, index: index, counter: sent).bytes
        guard let nonce = Self.nonce(sent),
            let box = try? ChaChaPoly.seal(body, using: sealing, nonce: nonce, authenticating: header)
        else { return nil }
        return header + Array(box.ciphertext) + Array(box.tag)
    }

    /// Returns the content of a datagram, or `nil` if it is not authentic or was received before.
    mutating func open(_ datagram: [UInt8]) -> (code: PacketCode, body: [UInt8])? {
        // The decoder has checked the length: a sealed datagram has a header and a tag.
        guard let header = try? MessageDecoder.header(of: datagram), header.code.isSealed, header.counter > received,
            let nonce = Self.nonce(header.counter),
            let box = try? ChaChaPoly.SealedBox(
                nonce: nonce, ciphertext: datagram.dropFirst(Header.sealedLength).dropLast(16), tag: datagram.suffix(16)
            ),
            let body = try? ChaChaPoly.open(box, using: opening, authenticating: header.bytes)
        else { return nil }
        received = header.counter
        return (header.code, Array(body))
    }

    /// Four zeros, and the counter as little-endian bytes.
    static func nonce(_ counter: UInt64) -> ChaChaPoly.Nonce? {
        let bytes: [UInt8] = (0..<12).map { $0 < 4 ? 0 : UInt8(truncatingIfNeeded: counter >> (8 * ($0 - 4))) }
        return try? ChaChaPoly.Nonce(data: bytes)
    }
}
