// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Crypto
package import FoundationEssentials
import Provisioning
import TunnelSystem

// The device API has two keys, whose pins devices have. The active key is in the folder, the backup key is not.

extension GatewayDirectory {
    /// Runs accesses to files outside the folder.
    package typealias OutsideAccess =
        (() throws(GatewayDirectoryError) -> Void) throws(GatewayDirectoryError) -> Void

    /// Replaces the active key, which is lost or stolen, by the backup key, and makes a new backup key, which grants
    /// announce from then on. The gateway must not be running.
    /// - Parameters:
    ///   - backupKey: The file that ``make(_:_:backupKey:random:)`` or this function has written.
    ///   - newBackupKey: The absolute path of the new file for the new backup key.
    ///   - caller: The actor in the audit log.
    ///   - outside: Runs the accesses to these two files, for which the folder's owner may lack the rights.
    /// - Returns: The pins that devices get.
    /// - Throws: ``GatewayDirectoryError`` of kind `.inUse` if a gateway is running. If the audit log cannot be written,
    ///   the error says that the key is active.
    package func recoverAPIKey(
        _ backupKey: String, newBackupKey: String, _ caller: Caller, now: Date = Date(),
        outside: OutsideAccess = { (access) throws(GatewayDirectoryError) in try access() }
    ) async throws(GatewayDirectoryError) -> Pins {
        try lock()
        let store = try openStore()
        let pins: Pins
        do throws(GatewayDirectoryError) {
            pins = try activateBackupKey(backupKey, newBackupKey: newBackupKey, outside: outside)
        } catch {
            try? store.close()
            throw error
        }
        do throws(StoreError) {
            try await store.append(
                AuditRecord(
                    at: now, actor: caller.name, source: nil, action: .backupKeyActivated, subject: "gateway",
                    details: ["active": pins.active.description, "backup": pins.backup.description]), change: nil)
            try store.close()
        } catch {
            throw GatewayDirectoryError(
                "the backup key is active now, but the audit log was not written: \(GatewayDirectoryError(error))")
        }
        return pins
    }

    /// Replaces the active key by the backup key, and makes a new backup key.
    ///
    /// A crash leaves the folder usable. The new backup key is on disk before anything in the folder changes, and the
    /// active key before the pins. Until the pins change, devices accept either key, and the function can be repeated.
    @discardableResult
    package func activateBackupKey(
        _ backupKey: String, newBackupKey: String,
        outside: OutsideAccess = { (access) throws(GatewayDirectoryError) in try access() }
    ) throws(GatewayDirectoryError) -> Pins {
        var pem: [UInt8] = []
        try outside { () throws(GatewayDirectoryError) in pem = try Self.readOutside(backupKey) }
        guard let key = Self.key(wiping: &pem) else {
            throw GatewayDirectoryError("'\(backupKey)' is not an ECDSA P-256 key in PEM", kind: .unusable)
        }
        let (before, pin, host) = (try pins(), try GatewayCertificate.pin(key), try settings().host)
        guard pin == before.backup else {
            throw GatewayDirectoryError(
                pin == before.active
                    ? "the key in '\(backupKey)' is already the active key"
                    : "'\(backupKey)' is not the backup key of this gateway", kind: .unusable,
                fix: "use the file whose key has the pin \(before.backup): culvert pin show FILE prints it")
        }
        let new = P256.Signing.PrivateKey()
        let pins = Pins(active: pin, backup: try GatewayCertificate.pin(new))
        try outside { () throws(GatewayDirectoryError) in try write(backup: new, to: newBackupKey) }
        do throws(GatewayDirectoryError) {
            try write(active: key, backup: pins.backup, host: host)
        } catch {
            // The stored pins do not name the new key.
            try? outside { () throws(GatewayDirectoryError) in unsafe _ = unlink(newBackupKey) }
            throw error
        }
        return pins
    }

    /// Writes the key before the pins: an interrupted write leaves a key that the stored pins name.
    func write(
        active: P256.Signing.PrivateKey, backup: ServerKeyPin, host: String
    ) throws(GatewayDirectoryError) {
        let leaf = try GatewayCertificate.leaf(host: host, key: active)
        let pins = Pins(active: try GatewayCertificate.pin(active), backup: backup)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(pins) else { throw GatewayDirectoryError("cannot encode the pins") }
        try files.write(Array(leaf.key.utf8), to: Name.apiKey)
        try files.write(Array(leaf.certificate.utf8), to: Name.apiCertificate)
        try files.write(Array(json) + [UInt8(ascii: "\n")], to: Name.pins)
    }

    func write(backup key: P256.Signing.PrivateKey, to file: String) throws(GatewayDirectoryError) {
        guard file.utf8.first == UInt8(ascii: "/"), !file.split(separator: "/").contains("..") else {
            throw GatewayDirectoryError("'\(file)' is not an absolute path", fix: "start it with '/'")
        }
        let folder = path.hasSuffix("/") ? path : path + "/"
        guard !file.hasPrefix(folder) else {
            throw GatewayDirectoryError(
                "'\(file)' is inside the gateway's folder",
                fix: "keep the backup key where a thief of the folder cannot find it")
        }
        let opened = SystemCall.open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard opened >= 0 else {
            let error = errno
            throw GatewayDirectoryError(
                "cannot write the backup key to '\(file)': \(SystemError.words(error))",
                kind: error == EEXIST ? .exists : SystemError.isDenied(error) ? .denied : .other,
                fix: error == EEXIST ? "use another file" : "")
        }
        defer { SystemCall.close(opened) }
        var bytes = Array((key.pemRepresentation + "\n").utf8)
        defer { wipe(&bytes) }
        guard SystemCall.writeAll(opened, bytes), fsync(opened) == 0 else {
            let error = errno
            unsafe _ = unlink(file)
            throw GatewayDirectoryError("cannot write the backup key to '\(file)': \(SystemError.words(error))")
        }
        // Makes the name durable. If the file system does not support it, there is no alternative.
        let parent = OwnedDescriptor(
            SystemCall.open("/" + file.split(separator: "/").dropLast().joined(separator: "/"), O_RDONLY | O_DIRECTORY))
        _ = fsync(parent.number)
    }

    /// Reads a key in PEM, and overwrites the text and the decoded bytes with zeros.
    /// - Returns: `nil` if it is not an ECDSA P-256 key.
    static func key(wiping pem: inout [UInt8]) -> P256.Signing.PrivateKey? {
        defer { wipe(&pem) }
        // A `String` cannot be overwritten, so use a buffer.
        var text = Data(capacity: pem.count)
        defer { text.resetBytes(in: 0..<text.count) }
        var isInside = false
        for line in pem.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
            guard line.starts(with: "-----".utf8) else {
                if isInside { text.append(contentsOf: line) }
                continue
            }
            if isInside { break }
            let label = line.dropFirst(5).prefix { $0 != UInt8(ascii: "-") }
            isInside = ["BEGIN PRIVATE KEY", "BEGIN EC PRIVATE KEY"].contains { label.elementsEqual($0.utf8) }
        }
        guard var der = Data(base64Encoded: text) else { return nil }
        defer { der.resetBytes(in: 0..<der.count) }
        return try? P256.Signing.PrivateKey(derRepresentation: der)
    }

    private static func readOutside(_ file: String) throws(GatewayDirectoryError) -> [UInt8] {
        let opened = SystemCall.open(file, O_RDONLY | O_NONBLOCK)
        guard opened >= 0 else {
            throw GatewayDirectoryError("cannot open '\(file)': \(SystemError.words(errno))")
        }
        defer { SystemCall.close(opened) }
        guard let bytes = SystemCall.readAll(opened, limit: 65_536) else {
            throw GatewayDirectoryError("cannot read '\(file)': \(SystemError.words(errno))")
        }
        return bytes
    }
}
