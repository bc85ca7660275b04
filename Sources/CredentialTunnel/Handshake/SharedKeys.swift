// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import WireGuardCore

/// The keys that a server and all of its clients share, and keys derived from them. Wiped in deinit.
package final class SharedKeys: @unchecked Sendable {
    /// The server's public key, which clients pin.
    package let server: PublicKey
    // Written in `init` only.
    private(set) var presharedKey: Bytes32
    /// The key of mac1. A datagram from a sender without both configured keys costs the server at most one hash.
    private(set) var mac1Key: Bytes32
    /// The key that seals cookies.
    private(set) var cookieKey: Bytes32

    package init(server: PublicKey, presharedKey: PresharedKey) {
        self.server = server
        self.presharedKey = Bytes32(copying: presharedKey.secret)
        mac1Key = Self.labelled("CTmac1--", Bytes32(server), self.presharedKey)
        cookieKey = Self.labelled("CTcookie", Bytes32(server), self.presharedKey)
    }

    deinit {
        presharedKey.wipe()
        mac1Key.wipe()
        cookieKey.wipe()
    }

    private static func labelled(_ label: StaticString, _ server: Bytes32, _ presharedKey: Bytes32) -> Bytes32 {
        var hash = Blake2s(digestByteCount: 32)
        defer { hash.wipe() }
        unsafe hash.update(UnsafeRawBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount))
        hash.update(server)
        hash.update(presharedKey)
        return hash.finalize32()
    }

    // MARK: - Prologues

    /// The prologue of the first handshake: a name, and the header of its message.
    static func prologue(hello: Header) -> [UInt8] {
        Array("Culvert credential tunnel: hello".utf8) + hello.bytes
    }

    /// The prologue of a rekey: a name, and the index of the client's new session.
    static func prologue(rekeyTo index: UInt32) -> [UInt8] {
        Array("Culvert credential tunnel: rekey".utf8) + littleEndian(index)
    }

    /// The key that a rekey mixes in. It depends on the pre-shared key and on the session whose keys are renewed.
    func rekeyKey(chain: Bytes32) -> Bytes32 {
        KDF.derive1(key: chain, input: presharedKey)
    }

    static func littleEndian(_ index: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: index >> UInt32(8 * $0)) }
    }

    /// Returns the number in the first four bytes. There must be at least four.
    static func index(_ bytes: some Collection<UInt8>) -> UInt32 {
        bytes.prefix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension SharedKeys: CustomReflectable {
    package var customMirror: Mirror { Mirror(self, children: []) }
}
