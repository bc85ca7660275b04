// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import PacketTunnel
package import Provisioning

/// The SHA-256 hash of a secret, which a gateway stores instead of the secret. Hashes are compared in constant time and
/// never printed.
package struct SecretHash: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(of bytes: [UInt8]) { self.bytes = Array(SHA256.hash(data: bytes)) }

    package init(_ secret: BearerSecret) { self.init(of: secret.bytes.bytes) }

    /// Makes a hash from its 32 stored bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }

    package static func == (a: SecretHash, b: SecretHash) -> Bool {
        var difference: UInt8 = 0
        for index in 0..<SHA256.byteCount { difference |= a.bytes[index] ^ b.bytes[index] }
        return difference == 0
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension SecretHash: CustomStringConvertible, CustomReflectable {
    package var description: String { "(hash of a secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension BearerSecret {
    /// The first 9 characters: enough to recognise a secret, and too few to use it.
    package var hint: String { String(exportedText.prefix(9)) }
}
