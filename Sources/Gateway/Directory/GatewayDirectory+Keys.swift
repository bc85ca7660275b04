// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import TunnelSystem
package import WireGuardCore

// WireGuard's keys. The file of the next key has the time of the switch in its second line, so that both are written
// and removed together.

extension GatewayDirectory: ServerKeyStore {
    package func serverKeys() throws(GatewayError) -> ServerKeys {
        try asServiceError { () throws(GatewayDirectoryError) in try readKeys() }
    }

    private func readCurrentKey() throws(GatewayDirectoryError) -> PrivateKey {
        let lines = try text(Name.serverKey).split(separator: "\n")
        guard lines.count == 1, let current = PrivateKey(base64: lines[0]), !current.isZero else {
            throw damaged(Name.serverKey)
        }
        return current
    }

    private func readKeys() throws(GatewayDirectoryError) -> ServerKeys {
        let current = try readCurrentKey()
        guard try files.read(Name.nextServerKey) != nil else { return ServerKeys(current: current) }
        let next = try text(Name.nextServerKey).split(separator: "\n")
        guard next.count == 2, let key = PrivateKey(base64: next[0]), !key.isZero,
            let time = try? Date(String(next[1]), strategy: .iso8601)
        else { throw damaged(Name.nextServerKey) }
        // A crash interrupted the switch after the next key was written as the current key, so the switch is complete.
        guard key != current else { return ServerKeys(current: current) }
        return ServerKeys(current: current, next: ServerKeys.Next(key: key, switchAt: time))
    }

    package func write(_ keys: ServerKeys) throws(GatewayError) {
        try asServiceError { () throws(GatewayDirectoryError) in
            if try readCurrentKey() != keys.current { try write(text: keys.current.exportedBase64, Name.serverKey) }
            if let next = keys.next {
                try write(
                    text: "\(next.key.exportedBase64)\n\(next.switchAt.formatted(.iso8601))", Name.nextServerKey)
            } else {
                try files.remove(Name.nextServerKey)
            }
        }
    }

    package func presharedMaster() throws(GatewayError) -> PresharedKey {
        try asServiceError { () throws(GatewayDirectoryError) in
            let lines = try text(Name.presharedMaster).split(separator: "\n")
            guard lines.count == 1, let key = PresharedKey(base64: lines[0]), !key.isZero else {
                throw damaged(Name.presharedMaster)
            }
            return key
        }
    }

    // MARK: - The login tunnel

    /// The keys of the login tunnel, made the first time.
    package func loginKeys(random: RandomSource = RandomSource()) throws(GatewayDirectoryError) -> LoginTunnelKeys {
        if let keys = try storedLoginKeys() { return keys }
        var random = random
        let presharedKey = PresharedKey(using: &random)
        let keys = LoginTunnelKeys(privateKey: PrivateKey(using: &random), presharedKey: presharedKey)
        try write(keys)
        return keys
    }

    /// Writes both keys into a folder that has none. A crash leaves the file of the new pre-shared key, so that the next start
    /// knows that a missing key was not lost.
    func write(_ keys: LoginTunnelKeys) throws(GatewayDirectoryError) {
        try write(text: keys.presharedKey.exportedBase64, Name.newLoginPresharedKey)
        try write(text: keys.privateKey.exportedBase64, Name.loginKey)
        try write(text: keys.presharedKey.exportedBase64, Name.loginPresharedKey)
        try files.remove(Name.newLoginPresharedKey)
    }

    /// The keys of the login tunnel; `nil` if none were made.
    /// - Throws: ``GatewayDirectoryError`` of kind `.missing` if only one file exists. With new keys no client could connect.
    func storedLoginKeys() throws(GatewayDirectoryError) -> LoginTunnelKeys? {
        let isPresent = try (
            key: files.read(Name.loginKey) != nil, shared: files.read(Name.loginPresharedKey) != nil
        )
        if try files.read(Name.newLoginPresharedKey) != nil {
            guard isPresent.key, isPresent.shared else { return nil }
            // On a read-only file system, the file stays until a later start.
            try? files.remove(Name.newLoginPresharedKey)
        }
        guard isPresent.key || isPresent.shared else { return nil }
        guard isPresent.key, isPresent.shared else {
            let (gone, other) =
                isPresent.shared ? (Name.loginKey, Name.loginPresharedKey) : (Name.loginPresharedKey, Name.loginKey)
            throw GatewayDirectoryError(
                "\(path)/\(gone) is missing", kind: .missing,
                fix:
                    "restore it from a backup, or delete \(path)/\(other) for new keys, which all login clients will need"
            )
        }
        let (key, shared) = (
            try text(Name.loginKey).split(separator: "\n"), try text(Name.loginPresharedKey).split(separator: "\n")
        )
        guard key.count == 1, let privateKey = PrivateKey(base64: key[0]), !privateKey.isZero else {
            throw damaged(Name.loginKey)
        }
        guard shared.count == 1, let presharedKey = PresharedKey(base64: shared[0]), !presharedKey.isZero else {
            throw damaged(Name.loginPresharedKey)
        }
        return LoginTunnelKeys(privateKey: privateKey, presharedKey: presharedKey)
    }

    private func asServiceError<Result>(
        _ body: () throws(GatewayDirectoryError) -> Result
    ) throws(GatewayError) -> Result {
        do throws(GatewayDirectoryError) { return try body() } catch { throw .unavailable("\(error)") }
    }
}
