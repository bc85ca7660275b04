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

/// The folder of a gateway: settings, keys, certificates and the database. Only its owner can access it. The backup
/// key of the device API is the one file outside the folder: the administrator chooses its place.
package struct GatewayDirectory: Sendable {
    /// The default path.
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
        /// The pre-shared key while both keys are being written.
        static let newLoginPresharedKey = "login.preshared.key.new"
        static let loginTicketKeys = "login.tickets.key"
        static let database = "gateway.db"
        /// The mark of a folder that has, or had, a database.
        static let databaseMark = "gateway.db.made"
        /// Whether a file is a copy of the database that a backup or a migration makes, or SQLite's journal of one.
        static func isCopy(_ name: String) -> Bool {
            name.hasPrefix("copy-") && name.contains(".db") || name.hasPrefix("\(database).copy")
        }
        /// The files of a backup in addition to the database.
        static let kept = [
            GatewaySettings.fileName, serverKey, nextServerKey, presharedMaster, apiKey, apiCertificate, pins,
            authorityKey, authorityCertificate, addKeyKey, addKeyCertificate, loginPresharedKey, loginKey,
        ]
    }

    /// The pins of the device API's keys.
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
                "the folder \(path) does not exist", kind: .missing,
                fix: "run 'culvert gateway init' to make it, or select a folder with --directory")
        }
        self.path = path
        self.files = files
        guard try files.read(Name.serverKey) != nil else {
            throw GatewayDirectoryError(
                "\(path) does not contain a gateway", kind: .missing, fix: "run 'culvert gateway init' to make one")
        }
    }

    init(made path: String) throws(GatewayDirectoryError) {
        self.path = path
        files = try PrivateDirectory(path: path, access: .ownerOnly, byteLimit: Self.byteLimit)
        try lock()
    }

    /// Makes the folder with new keys and these settings.
    /// - Parameter backupKey: The absolute path of the new file for the backup key, outside the folder.
    /// - Throws: ``GatewayDirectoryError`` of kind `.exists` if the folder contains a gateway, or if the file exists.
    package static func make(
        _ path: String, _ settings: GatewaySettings, backupKey: String, random: RandomSource = RandomSource()
    ) throws(GatewayDirectoryError) -> GatewayDirectory {
        if let problem = settings.problem {
            throw GatewayDirectoryError("\(problem.field): \(problem.words)")
        }
        let directory = try GatewayDirectory(made: path)
        guard try directory.files.read(Name.serverKey) == nil else {
            throw GatewayDirectoryError(
                "\(path) already contains the keys of a gateway", kind: .exists,
                fix: "select another folder with --directory; new keys would lock out all devices")
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
        // This file is written last: a folder without it does not contain a gateway.
        try directory.write(text: key.exportedBase64, Name.serverKey)
        return directory
    }

    /// The path of the database.
    package var database: String { "\(path)/\(Name.database)" }

    /// Locks the folder against other gateways and `restore`, until this value and all copies of it are released.
    /// - Parameter limit: The time to wait while another process has the lock. A killed gateway keeps it until the system has
    ///   ended the process.
    /// - Throws: ``GatewayDirectoryError`` of kind `.inUse` if the folder is still locked then.
    package func lock(within limit: Duration = .zero) throws(GatewayDirectoryError) {
        try holder.held.withLock { (held) throws(GatewayDirectoryError) in
            guard held == nil else { return }
            let opened = SystemCall.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            guard opened >= 0 else {
                throw GatewayDirectoryError("cannot open '\(path)': \(SystemError.words(errno))")
            }
            let descriptor = SharedDescriptor(OwnedDescriptor(opened))
            let reason = FileLock.acquire(opened, within: limit)
            guard reason == 0 else {
                guard reason == EWOULDBLOCK else {
                    throw GatewayDirectoryError("cannot lock '\(path)': \(SystemError.words(reason))")
                }
                throw GatewayDirectoryError(
                    "another gateway uses the folder \(path)", kind: .inUse, fix: "stop it first")
            }
            held = descriptor
        }
    }

    /// The lock, which is held until the last copy of the folder's value is released.
    private final class Holder: Sendable {
        let held = Mutex<SharedDescriptor?>(nil)
    }

    /// Opens the database. The first call makes it.
    ///
    /// The caller has locked the folder, so that copies in it are those of an ended process. They are removed.
    /// - Parameter permitsReadOnly: Whether a database on a read-only file system is opened for reading.
    /// - Throws: ``GatewayDirectoryError`` of kind `.missing` if the folder had a database, which is gone: a new one would refuse all
    ///   devices.
    package func openStore(permitsReadOnly: Bool = false) throws(GatewayDirectoryError) -> GatewayStore {
        let isMarked = try files.read(Name.databaseMark) != nil
        guard !isMarked || FileStatus(of: database, followsLinks: false) != nil else {
            throw GatewayDirectoryError(
                "\(database) is missing", kind: .missing,
                fix: "restore a backup, or delete \(path)/\(Name.databaseMark) to begin without users and devices")
        }
        for name in try files.names() where Name.isCopy(name) { try? files.remove(name) }
        let store: GatewayStore
        let isReadOnly = unsafe access(path, W_OK) != 0 && errno == EROFS
        do throws(StoreError) {
            store = try GatewayStore(path: database, isReadOnly: permitsReadOnly && isReadOnly)
        } catch {
            throw GatewayDirectoryError(error, folder: path, isReadOnly: isReadOnly)
        }
        // A full disk must not stop the gateway; the next start tries again.
        if !isMarked { try? write(text: "This folder has the database \(Name.database).", Name.databaseMark) }
        return store
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

    /// The certificate that the device API presents now.
    package func apiCertificate() throws(GatewayDirectoryError) -> GatewayCertificate {
        guard let key = try files.read(Name.apiKey).map({ String(decoding: $0, as: UTF8.self) }) else {
            throw GatewayDirectoryError(
                "\(path)/\(Name.apiKey) is missing", kind: .missing,
                fix: "restore it from a backup, or replace it with 'culvert gateway key activate-backup'")
        }
        let certificate = try files.read(Name.apiCertificate).map { String(decoding: $0, as: UTF8.self) }
        // A crash has interrupted ``write(active:backup:host:)`` after the key. Devices pin the key, so a new certificate
        // is as good.
        if let active = try? P256.Signing.PrivateKey(pemRepresentation: key),
            certificate.map({ !GatewayCertificate.isCertificate($0, of: active) }) ?? true
        {
            return try GatewayCertificate.leaf(host: try settings().host, key: active)
        }
        guard let certificate else { throw missing(Name.apiCertificate) }
        return GatewayCertificate(certificate: certificate, key: key)
    }

    package func pins() throws(GatewayDirectoryError) -> Pins {
        guard let bytes = try files.read(Name.pins) else { throw missing(Name.pins) }
        guard let pins = try? JSONDecoder().decode(Pins.self, from: Data(bytes)), pins.active != pins.backup else {
            throw damaged(Name.pins)
        }
        return pins
    }

    // MARK: - addKey

    /// Makes the `addKey` authority and the certificate of its listener, unless they exist.
    package func makeAddKeyAuthority(host: String) throws(GatewayDirectoryError) {
        guard try files.read(Name.addKeyKey) == nil else { return }
        let (authority, leaf) = try GatewayCertificate.authority(host: host)
        try files.write(Array(authority.key.utf8), to: Name.authorityKey)
        try files.write(Array(authority.certificate.utf8), to: Name.authorityCertificate)
        try files.write(Array(leaf.certificate.utf8), to: Name.addKeyCertificate)
        try files.write(Array(leaf.key.utf8), to: Name.addKeyKey)
    }

    /// The certificate of the `addKey` listener, and the authority's certificate, which PIA's clients trust.
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
            "\(path)/\(name) is damaged", kind: .damaged, fix: "restore it from a backup")
    }
}
