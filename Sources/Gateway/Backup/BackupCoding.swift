// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials

/// Encrypts a backup, one chunk after another.
struct BackupEncryptor: Sendable {
    /// The beginning of the file, before the first chunk.
    let header: [UInt8]
    private let key: SymmetricKey
    private var number = 0

    init(passphrase: [UInt8], cost: BackupFormat.Cost, random: RandomSource) throws(GatewayDirectoryError) {
        let salt = random.bytes(BackupFormat.saltLength)
        let keys = try BackupFormat.keys(passphrase, salt, cost)
        var file = BackupFormat.magic + [cost.log2N, cost.r, cost.p] + salt
        file += Array(SHA256.hash(data: file))
        file += Array(HMAC<SHA256>.authenticationCode(for: file, using: keys.header))
        (header, key) = (file, keys.chunks)
    }

    /// Encrypts the next chunk.
    /// - Parameter part: ``BackupFormat/chunk`` bytes, or at most as many in the last chunk.
    mutating func seal(_ part: ArraySlice<UInt8>, isLast: Bool) throws(GatewayDirectoryError) -> [UInt8] {
        guard
            let nonce = try? ChaChaPoly.Nonce(data: BackupFormat.nonce(number, isLast: isLast)),
            let box = try? ChaChaPoly.seal(part, using: key, nonce: nonce, authenticating: header)
        else { throw GatewayDirectoryError("cannot encrypt the backup") }
        number += 1
        return Array(box.ciphertext) + Array(box.tag)
    }
}

/// Decrypts a backup as its bytes arrive. It keeps at most one chunk in addition to the bytes of a call.
package struct BackupReader: Sendable {
    private var passphrase: [UInt8]
    private var pending: [UInt8] = []
    private var opened: (key: SymmetricKey, header: [UInt8])?
    private var number = 0

    package init(passphrase: [UInt8]) { self.passphrase = passphrase }

    /// Adds the next bytes of the file, and returns the content of the chunks that they complete.
    ///
    /// The last chunk is complete only at the end of the file: see ``finish()``.
    package mutating func read(_ bytes: [UInt8]) throws(GatewayDirectoryError) -> [UInt8] {
        pending += bytes
        if opened == nil { try open() }
        guard let (key, header) = opened else { return [] }
        let size = BackupFormat.chunk + BackupFormat.tagLength
        var (plain, start): ([UInt8], Int) = ([], 0)
        while pending.count - start > size {
            plain += try decrypt(pending[start..<(start + size)], isLast: false, key, header)
            start += size
        }
        pending.removeFirst(start)
        return plain
    }

    /// Returns the content of the last chunk after the end of the file.
    /// - Throws: ``GatewayDirectoryError`` of kind `.damaged` if the file was truncated.
    package mutating func finish() throws(GatewayDirectoryError) -> [UInt8] {
        guard let (key, header) = opened else {
            try checkMagic()
            throw BackupFormat.damaged("the file is truncated")
        }
        return try decrypt(pending[...], isLast: true, key, header)
    }

    /// Reads the header once it is complete.
    private mutating func open() throws(GatewayDirectoryError) {
        guard pending.count >= BackupFormat.headerLength else { return }
        try checkMagic()
        let header = Array(pending[..<BackupFormat.headerLength])
        let (summed, sum) = (header.dropLast(64), header.suffix(64).prefix(32))
        guard Array(SHA256.hash(data: summed)) == Array(sum) else {
            throw BackupFormat.damaged("its header was changed")
        }
        let start = BackupFormat.magic.count
        let cost = BackupFormat.Cost(log2N: header[start], r: header[start + 1], p: header[start + 2])
        guard cost.isValid else { throw BackupFormat.damaged("it requires too much memory") }
        let keys = try BackupFormat.keys(passphrase, Array(summed.dropFirst(start + 3)), cost)
        guard
            HMAC<SHA256>.isValidAuthenticationCode(
                header.suffix(32), authenticating: header.dropLast(32), using: keys.header)
        else { throw GatewayDirectoryError("the passphrase is wrong", kind: .wrongPassphrase) }
        pending.removeFirst(BackupFormat.headerLength)
        passphrase = []
        opened = (keys.chunks, header)
    }

    private func checkMagic() throws(GatewayDirectoryError) {
        guard !pending.starts(with: BackupFormat.magic) else { return }
        if pending.starts(with: "culvert-backup-".utf8) {
            throw GatewayDirectoryError(
                "a later version of this program made this backup", kind: .newer, fix: "update the program")
        }
        throw GatewayDirectoryError("the file is not a backup of a gateway", kind: .damaged)
    }

    private mutating func decrypt(
        _ part: ArraySlice<UInt8>, isLast: Bool, _ key: SymmetricKey, _ header: [UInt8]
    ) throws(GatewayDirectoryError) -> [UInt8] {
        guard part.count >= BackupFormat.tagLength,
            let nonce = try? ChaChaPoly.Nonce(data: BackupFormat.nonce(number, isLast: isLast)),
            let box = try? ChaChaPoly.SealedBox(
                nonce: nonce, ciphertext: part.dropLast(BackupFormat.tagLength),
                tag: part.suffix(BackupFormat.tagLength)),
            let plain = try? ChaChaPoly.open(box, using: key, authenticating: header)
        else { throw BackupFormat.damaged("the file was changed or truncated") }
        number += 1
        return Array(plain)
    }
}
