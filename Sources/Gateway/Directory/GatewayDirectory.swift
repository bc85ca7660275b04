// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Crypto
import FoundationEssentials
import NetworkAddresses
import PacketTunnel
package import Provisioning
import Synchronization
import TunnelSystem
import WireGuardCore

/// The folder of a gateway: settings, keys, certificates and the database, of which nobody but its owner sees anything. Only the
/// backup key of the device API is elsewhere, where the administrator has put it.
package struct GatewayDirectory: Sendable {
    /// Where it is unless something else is said.
    package static let standard = "/etc/culvert/gateway"

    package let path: String
    let files: PrivateDirectory<GatewayDirectoryError>
    private let holder = Holder()

    enum Name {
        static let serverKey = "server.key"
        static let nextServerKey = "server.next.key"
        static let presharedMaster = "preshared.key"
        static let apiKey = "api.key"
        static let apiCertificate = "api.crt"
        static let pins = "pins.json"
        static let authorityKey = "addkey-ca.key"
        static let authorityCertificate = "addkey-ca.crt"
        static let addKeyKey = "addkey.key"
        static let addKeyCertificate = "addkey.crt"
        static let loginKey = "login.key"
        static let loginPresharedKey = "login.preshared.key"
        static let database = "gateway.db"
        /// All that a backup has beside the database.
        static let kept = [
            GatewaySettings.fileName, serverKey, nextServerKey, presharedMaster, apiKey, apiCertificate, pins,
            authorityKey, authorityCertificate, addKeyKey, addKeyCertificate, loginPresharedKey, loginKey,
        ]
    }

    /// The keys of the device API that devices pin.
    package struct Pins: Hashable, Sendable, Codable {
        package var active: ServerKeyPin
        package var backup: ServerKeyPin
    }

    static let byteLimit = 1 << 31

    /// Opens a folder that ``make(_:_:backupKey:random:)`` has made.
    package init(existing path: String) throws(GatewayDirectoryError) {
        guard
            let files = try PrivateDirectory<GatewayDirectoryError>(
                existing: path, access: .ownerOnly, byteLimit: Self.byteLimit)
        else {
            throw GatewayDirectoryError(
                "there is no folder \(path)", kind: .missing,
                fix: "'culvert gateway init' makes it; --directory names another one")
        }
        self.path = path
        self.files = files
        guard try files.read(Name.serverKey) != nil else {
            throw GatewayDirectoryError(
                "\(path) has no gateway in it", kind: .missing, fix: "'culvert gateway init' makes one")
        }
    }

    init(made path: String) throws(GatewayDirectoryError) {
        self.path = path
        files = try PrivateDirectory(path: path, access: .ownerOnly, byteLimit: Self.byteLimit)
        try lock()
    }

    /// Makes the folder with fresh keys and these settings.
    /// - Parameter backupKey: where the backup key goes: an absolute path outside the folder, where there is nothing yet.
    /// - Throws: where there is a gateway in it already.
    package static func make(
        _ path: String, _ settings: GatewaySettings, backupKey: String, random: RandomSource = RandomSource()
    ) throws(GatewayDirectoryError) -> GatewayDirectory {
        if let problem = settings.problem {
            throw GatewayDirectoryError("\(problem.field): \(problem.words)")
        }
        let directory = try GatewayDirectory(made: path)
        guard try directory.files.read(Name.serverKey) == nil else {
            throw GatewayDirectoryError(
                "\(path) has a gateway's keys already", kind: .exists,
                fix: "name another folder with --directory; new keys would lock out all devices")
        }
        let (active, backup) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        try directory.write(backup: backup, to: backupKey)
        var random = random
        let key = PrivateKey(using: &random)
        let master = PresharedKey(using: &random)
        try directory.write(settings)
        try directory.write(active: active, backup: try GatewayCertificate.pin(backup), host: settings.host)
        if settings.addKey.isEnabled { try directory.makeAddKeyAuthority(host: settings.host) }
        try directory.write(text: master.exportedBase64, Name.presharedMaster)
        // The last one: a folder without it is no gateway's yet.
        try directory.write(text: key.exportedBase64, Name.serverKey)
        return directory
    }

    /// Where the database is.
    package var database: String { "\(path)/\(Name.database)" }

    /// Keeps other gateways, and restoring, out of the folder until this value and its copies are gone.
    /// - Throws: `.inUse`, at once.
    package func lock() throws(GatewayDirectoryError) {
        try holder.held.withLock { (held) throws(GatewayDirectoryError) in
            guard held == nil else { return }
            let opened = SystemCall.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            guard opened >= 0 else {
                throw GatewayDirectoryError("'\(path)' cannot be opened: \(SystemError.words(errno))")
            }
            let descriptor = SharedDescriptor(OwnedDescriptor(opened))
            guard SystemCall.retry({ flock(opened, LOCK_EX | LOCK_NB) }) == 0 else {
                guard errno == EWOULDBLOCK else {
                    throw GatewayDirectoryError("'\(path)' cannot be locked: \(SystemError.words(errno))")
                }
                throw GatewayDirectoryError(
                    "a gateway uses the folder \(path) already", kind: .inUse, fix: "stop it first")
            }
            held = descriptor
        }
    }

    /// The lock, for as long as anybody has the folder.
    private final class Holder: Sendable {
        let held = Mutex<SharedDescriptor?>(nil)
    }

    /// Opens the database.
    package func openStore() throws(GatewayDirectoryError) -> GatewayStore {
        do throws(StoreError) { return try GatewayStore(path: database) } catch { throw GatewayDirectoryError(error) }
    }

    // MARK: - Settings

    package func settings() throws(GatewayDirectoryError) -> GatewaySettings {
        guard let bytes = try files.read(GatewaySettings.fileName) else { throw missing(GatewaySettings.fileName) }
        do throws(GatewayError) { return try GatewaySettings(json: bytes) } catch {
            throw GatewayDirectoryError("\(error)", kind: .unusable)
        }
    }

    package func write(_ settings: GatewaySettings) throws(GatewayDirectoryError) {
        if let problem = settings.problem {
            throw GatewayDirectoryError("\(problem.field): \(problem.words)")
        }
        try files.write(settings.text, to: GatewaySettings.fileName)
    }

    // MARK: - The device API

    /// The certificate that the device API shows now.
    package func apiCertificate() throws(GatewayDirectoryError) -> GatewayCertificate {
        GatewayCertificate(certificate: try text(Name.apiCertificate), key: try text(Name.apiKey))
    }

    package func pins() throws(GatewayDirectoryError) -> Pins {
        guard let bytes = try files.read(Name.pins) else { throw missing(Name.pins) }
        guard let pins = try? JSONDecoder().decode(Pins.self, from: Data(bytes)), pins.active != pins.backup else {
            throw damaged(Name.pins)
        }
        return pins
    }

    /// Puts the backup key in the place of the active one, which is lost or known to others, with a new backup key. Devices know
    /// both old pins, and learn none of the new one: they follow once, and have to enrol again before the next time.
    /// - Parameters:
    ///   - backupKey: the file that ``make(_:_:backupKey:random:)`` has written.
    ///   - newBackupKey: where the new one goes.
    package func activateBackupKey(
        _ backupKey: String, newBackupKey: String
    ) throws(GatewayDirectoryError) {
        let pem = try Self.readOutside(backupKey)
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else {
            throw GatewayDirectoryError("'\(backupKey)' is no key of ECDSA on P-256 in PEM")
        }
        guard try GatewayCertificate.pin(key) == pins().backup else {
            throw GatewayDirectoryError("'\(backupKey)' is not the backup key of this gateway")
        }
        let new = P256.Signing.PrivateKey()
        try write(backup: new, to: newBackupKey)
        try write(active: key, backup: try GatewayCertificate.pin(new), host: try settings().host)
    }

    private func write(
        active: P256.Signing.PrivateKey, backup: ServerKeyPin, host: String
    ) throws(GatewayDirectoryError) {
        let leaf = try GatewayCertificate.leaf(host: host, key: active)
        let pins = Pins(active: try GatewayCertificate.pin(active), backup: backup)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(pins) else { throw GatewayDirectoryError("the pins cannot be written") }
        try files.write(Array(leaf.key.utf8), to: Name.apiKey)
        try files.write(Array(leaf.certificate.utf8), to: Name.apiCertificate)
        try files.write(Array(json) + [UInt8(ascii: "\n")], to: Name.pins)
    }

    private func write(backup key: P256.Signing.PrivateKey, to file: String) throws(GatewayDirectoryError) {
        guard file.utf8.first == UInt8(ascii: "/"), !file.split(separator: "/").contains("..") else {
            throw GatewayDirectoryError("'\(file)' is not an absolute path", fix: "begin it with '/'")
        }
        let folder = path.hasSuffix("/") ? path : path + "/"
        guard !file.hasPrefix(folder) else {
            throw GatewayDirectoryError(
                "'\(file)' is inside the gateway's folder", fix: "keep the backup key where the folder's thief is not")
        }
        let opened = SystemCall.open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard opened >= 0 else {
            let error = errno
            throw GatewayDirectoryError(
                "the backup key cannot be written to '\(file)': \(SystemError.words(error))",
                kind: error == EEXIST ? .exists : SystemError.isDenied(error) ? .denied : .other)
        }
        defer { SystemCall.close(opened) }
        let bytes = Array((key.pemRepresentation + "\n").utf8)
        guard SystemCall.writeAll(opened, bytes), fsync(opened) == 0 else {
            throw GatewayDirectoryError("the backup key cannot be written to '\(file)': \(SystemError.words(errno))")
        }
    }

    private static func readOutside(_ file: String) throws(GatewayDirectoryError) -> String {
        let opened = SystemCall.open(file, O_RDONLY | O_NONBLOCK)
        guard opened >= 0 else {
            throw GatewayDirectoryError("'\(file)' cannot be opened: \(SystemError.words(errno))")
        }
        defer { SystemCall.close(opened) }
        guard let bytes = SystemCall.readAll(opened, limit: 65_536) else {
            throw GatewayDirectoryError("'\(file)' cannot be read: \(SystemError.words(errno))")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: - addKey

    /// Makes the authority of `addKey` and the certificate of its listener, unless they exist already.
    package func makeAddKeyAuthority(host: String) throws(GatewayDirectoryError) {
        guard try files.read(Name.addKeyKey) == nil else { return }
        let (authority, leaf) = try GatewayCertificate.authority(host: host)
        try files.write(Array(authority.key.utf8), to: Name.authorityKey)
        try files.write(Array(authority.certificate.utf8), to: Name.authorityCertificate)
        try files.write(Array(leaf.certificate.utf8), to: Name.addKeyCertificate)
        try files.write(Array(leaf.key.utf8), to: Name.addKeyKey)
    }

    /// The certificate of `addKey`'s listener, and its authority's, which PIA's clients are given.
    package func addKeyCertificate() throws(GatewayDirectoryError) -> (leaf: GatewayCertificate, authority: String) {
        (
            GatewayCertificate(certificate: try text(Name.addKeyCertificate), key: try text(Name.addKeyKey)),
            try text(Name.authorityCertificate)
        )
    }

    // MARK: - Text

    func text(_ name: String) throws(GatewayDirectoryError) -> String {
        guard var bytes = try files.read(name) else { throw missing(name) }
        defer { wipe(&bytes) }
        return String(decoding: bytes, as: UTF8.self)
    }

    func write(text: String, _ name: String) throws(GatewayDirectoryError) {
        try files.write(Array((text + "\n").utf8), to: name)
    }

    func missing(_ name: String) -> GatewayDirectoryError {
        GatewayDirectoryError("\(path)/\(name) is missing", kind: .missing, fix: "restore it from a backup")
    }

    func damaged(_ name: String) -> GatewayDirectoryError {
        GatewayDirectoryError(
            "\(path)/\(name) is not as it was written", kind: .damaged, fix: "restore it from a backup")
    }
}
