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
/// chunks   ChaCha20-Poly1305 of up to 1 MiB each, followed by its tag. The nonce is the chunk's number (8 bytes, little-endian),
///          a byte that is 1 for the last chunk, and 3 zeros. The header is the additional data.
/// ```
/// scrypt derives 64 bytes: the key of the chunks, followed by the key of the HMAC. Decryption fails if a chunk is
/// missing, moved, added or changed, and if the file was truncated.
enum BackupFormat {
    static let magic = Array("culvert-backup-1\n".utf8)
    static let chunk = 1 << 20
    private static let saltLength = 32
    private static let tagLength = 16
    static let headerLength = magic.count + 3 + saltLength + 32 + 32

    /// The cost of a passphrase: `128 * 2^n * r` bytes of memory, and time in proportion to this number times `p`.
    struct Cost: Hashable, Sendable {
        var log2N: UInt8 = 16
        var r: UInt8 = 8
        var p: UInt8 = 1

        /// Whether the cost is within the bounds. They limit the memory that a file can make the gateway use.
        var isValid: Bool {
            (1...20).contains(log2N) && (1...32).contains(r) && (1...8).contains(p)
                && 128 * (1 << Int(log2N)) * Int(r) * Int(p) <= 1 << 28
        }
    }

    private struct Keys {
        var chunks: SymmetricKey
        var header: SymmetricKey
    }

    private static func keys(
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

    static func encrypt(
        _ payload: [UInt8], passphrase: [UInt8], cost: Cost = Cost(), random: RandomSource
    ) throws(GatewayDirectoryError) -> [UInt8] {
        let salt = random.bytes(saltLength)
        let keys = try keys(passphrase, salt, cost)
        var file = magic + [cost.log2N, cost.r, cost.p] + salt
        file += Array(SHA256.hash(data: file))
        file += Array(HMAC<SHA256>.authenticationCode(for: file, using: keys.header))
        let header = file
        let count = max((payload.count + chunk - 1) / chunk, 1)
        for number in 0..<count {
            let part = payload[(number * chunk)..<min((number + 1) * chunk, payload.count)]
            guard
                let nonce = try? ChaChaPoly.Nonce(data: nonce(number, isLast: number == count - 1)),
                let box = try? ChaChaPoly.seal(part, using: keys.chunks, nonce: nonce, authenticating: header)
            else { throw GatewayDirectoryError("cannot encrypt the backup") }
            file += Array(box.ciphertext) + Array(box.tag)
        }
        return file
    }

    static func decrypt(_ file: [UInt8], passphrase: [UInt8]) throws(GatewayDirectoryError) -> [UInt8] {
        guard file.count >= magic.count, file.starts(with: magic) else {
            if file.starts(with: "culvert-backup-".utf8) {
                throw GatewayDirectoryError(
                    "a later version of this program made this backup", kind: .newer, fix: "update the program")
            }
            throw GatewayDirectoryError("the file is not a backup of a gateway", kind: .damaged)
        }
        guard file.count > headerLength else { throw damaged("the file is truncated") }
        let header = Array(file[..<headerLength])
        let (summed, sum) = (header[..<(headerLength - 64)], header[(headerLength - 64)..<(headerLength - 32)])
        guard Array(SHA256.hash(data: summed)) == Array(sum) else { throw damaged("its header was changed") }
        let cost = Cost(log2N: header[magic.count], r: header[magic.count + 1], p: header[magic.count + 2])
        guard cost.isValid else { throw damaged("it requires too much memory") }
        let keys = try keys(passphrase, Array(summed[(magic.count + 3)...]), cost)
        guard
            HMAC<SHA256>.isValidAuthenticationCode(
                header[(headerLength - 32)...], authenticating: header[..<(headerLength - 32)], using: keys.header)
        else { throw GatewayDirectoryError("the passphrase is wrong", kind: .wrongPassphrase) }
        return try chunks(file[headerLength...], keys.chunks, header)
    }

    private static func chunks(
        _ body: ArraySlice<UInt8>, _ key: SymmetricKey, _ header: [UInt8]
    ) throws(GatewayDirectoryError) -> [UInt8] {
        var payload: [UInt8] = []
        payload.reserveCapacity(body.count)
        var (rest, number) = (body, 0)
        repeat {
            let part = rest.prefix(chunk + tagLength)
            rest = rest.dropFirst(part.count)
            guard part.count >= tagLength,
                let nonce = try? ChaChaPoly.Nonce(data: nonce(number, isLast: rest.isEmpty)),
                let box = try? ChaChaPoly.SealedBox(
                    nonce: nonce, ciphertext: part.dropLast(tagLength), tag: part.suffix(tagLength)),
                let plain = try? ChaChaPoly.open(box, using: key, authenticating: header)
            else { throw damaged("the file was changed or truncated") }
            payload += Array(plain)
            number += 1
        } while !rest.isEmpty
        return payload
    }

    private static func nonce(_ number: Int, isLast: Bool) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } + [isLast ? 1 : 0, 0, 0, 0]
    }

    static func damaged(_ problem: String) -> GatewayDirectoryError {
        GatewayDirectoryError("the backup is damaged: \(problem)", kind: .damaged, fix: "use another copy")
    }
}

/// The files in a backup, one after another. Each is the length of its name in one byte, the name, the length of its
/// content in 8 bytes (little-endian), and the content.
enum BackupPayload {
    static func encode(_ files: [(name: String, bytes: [UInt8])]) -> [UInt8] {
        var payload: [UInt8] = []
        for (name, bytes) in files {
            payload.append(UInt8(clamping: name.utf8.count))
            payload += Array(name.utf8)
            payload += (0..<8).map { UInt8(truncatingIfNeeded: bytes.count >> (8 * $0)) }
            payload += bytes
        }
        return payload
    }

    static func decode(_ payload: [UInt8]) throws(GatewayDirectoryError) -> [(name: String, bytes: [UInt8])] {
        var files: [(name: String, bytes: [UInt8])] = []
        var rest = payload[...]
        func read(_ count: Int) throws(GatewayDirectoryError) -> ArraySlice<UInt8> {
            guard count >= 0, rest.count >= count else { throw BackupFormat.damaged("a file in it is truncated") }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }
        while let length = rest.first {
            rest = rest.dropFirst()
            let name = String(decoding: try read(Int(length)), as: UTF8.self)
            guard FileName.isValid(name), !files.contains(where: { $0.name == name }) else {
                throw BackupFormat.damaged("the name of a file in it is not valid or not unique")
            }
            let size = try read(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard let count = Int(exactly: size) else { throw BackupFormat.damaged("a file in it is truncated") }
            files.append((name, Array(try read(count))))
        }
        return files
    }
}
