// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import CryptoExtras
import FoundationEssentials
import TunnelSystem

/// The file of a backup: a header, then encrypted chunks.
///
/// ```
/// header   "culvert-backup-1\n"             17 bytes
///          log2 n, r, p of scrypt            3 bytes
///          salt                              32 bytes
///          SHA-256 of the bytes above        32 bytes   detects a damaged header
///          HMAC-SHA256 of the bytes above    32 bytes   verifies the passphrase
/// chunks   ChaCha20-Poly1305 of up to 1 MiB each, followed by its tag. The nonce is the chunk's number (8 bytes,
///          little-endian), a byte that is 1 for the last chunk, and 3 zeros. The header is the additional data.
/// ```
/// scrypt derives 64 bytes: the key of the chunks, followed by the key of the HMAC. The last chunk is the end marker.
/// Decryption fails if a chunk is missing, moved, added or changed, and if the file was truncated.
enum BackupFormat {
    static let magic = Array("culvert-backup-1\n".utf8)
    static let chunk = 1 << 20
    static let saltLength = 32
    static let tagLength = 16
    static let headerLength = magic.count + 3 + saltLength + 32 + 32

    /// The cost of a passphrase: `128 * 2^n * r` bytes of memory, and time in proportion to this number times `p`.
    struct Cost: Hashable, Sendable {
        var log2N: UInt8 = 16
        var r: UInt8 = 8
        var p: UInt8 = 1

        /// Whether the cost is within its bounds, which limit the memory that a backup file can make the gateway use.
        var isValid: Bool {
            (1...20).contains(log2N) && (1...32).contains(r) && (1...8).contains(p)
                && 128 * (1 << Int(log2N)) * Int(r) * Int(p) <= 1 << 28
        }
    }

    struct Keys: Sendable {
        var chunks: SymmetricKey
        var header: SymmetricKey
    }

    static func keys(
        _ passphrase: [UInt8], _ salt: [UInt8], _ cost: Cost
    ) throws(GatewayDirectoryError) -> Keys {
        guard
            let derived = try? KDF.Scrypt.deriveKey(
                from: passphrase, salt: salt, outputByteCount: 64, rounds: 1 << Int(cost.log2N),
                blockSize: Int(cost.r), parallelism: Int(cost.p))
        else { throw GatewayDirectoryError("cannot hash the passphrase: there may be too little memory") }
        return unsafe derived.withUnsafeBytes { bytes in
            unsafe Keys(
                chunks: SymmetricKey(data: bytes.prefix(32)), header: SymmetricKey(data: bytes.dropFirst(32)))
        }
    }

    /// The nonce of a chunk.
    static func nonce(_ number: Int, isLast: Bool) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } + [isLast ? 1 : 0, 0, 0, 0]
    }

    static func damaged(_ problem: String) -> GatewayDirectoryError {
        GatewayDirectoryError("the backup is damaged: \(problem)", kind: .damaged, fix: "use another copy")
    }
}
