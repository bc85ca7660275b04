// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import TunnelSystem
import WireGuardCore

/// The folder of a server: settings, keys and users, of which nobody but its owner sees anything.
///
/// Whoever the folder belongs to is who the server runs as: root that finds it another user's becomes that user, before
/// anything is read or written.
struct ServerDirectory {
    /// Where it is unless something else is said.
    static let standard = "/etc/culvert/credential-server"

    let path: String
    let files: PrivateDirectory<CommandFailure>

    private static let privateKey = "private.key"
    private static let presharedKey = "preshared.key"

    /// The server's keys.
    struct Keys {
        var privateKey: PrivateKey
        var presharedKey: PresharedKey
    }

    /// Opens a folder that ``make(_:configuration:)`` has made.
    init(existing path: String) throws(CommandFailure) {
        guard let files = try PrivateDirectory<CommandFailure>(existing: path, access: .ownerOnly, byteLimit: 1 << 26)
        else {
            throw CommandFailure(
                "there is no folder \(path)", status: ExitStatus.notFound,
                fix: "'culvert credential-server init' makes it; --directory names another one")
        }
        self.path = path
        self.files = files
    }

    private init(made path: String) throws(CommandFailure) {
        self.path = path
        files = try PrivateDirectory(path: path, access: .ownerOnly, byteLimit: 1 << 26)
    }

    /// Makes the folder with fresh keys and these settings.
    /// - Throws: where there is a server in it already.
    static func make(_ path: String, _ configuration: ServerConfiguration) throws(CommandFailure) -> ServerDirectory {
        let directory = try ServerDirectory(made: path)
        try directory.files.lock()
        guard try directory.files.read(privateKey) == nil else {
            throw CommandFailure(
                "\(path) has a server's keys already", status: ExitStatus.usage,
                fix: "name another folder with --directory; new keys would lock out all clients that have these")
        }
        var random = SystemRandomNumberGenerator()
        let key = PrivateKey(using: &random)
        let presharedKey = PresharedKey(using: &random)
        try directory.files.write(configuration.text(), to: ServerConfiguration.name)
        try directory.files.write(Array((presharedKey.exportedBase64 + "\n").utf8), to: Self.presharedKey)
        try directory.files.write(Array((key.exportedBase64 + "\n").utf8), to: privateKey)
        return directory
    }

    func configuration() throws(CommandFailure) -> ServerConfiguration {
        guard let bytes = try files.read(ServerConfiguration.name) else { throw missing(ServerConfiguration.name) }
        return try ServerConfiguration(json: bytes)
    }

    func keys() throws(CommandFailure) -> Keys {
        guard let privateKey = PrivateKey(base64: try text(Self.privateKey)), !privateKey.isZero else {
            throw CommandFailure("\(path)/\(Self.privateKey) is no private key", fix: "restore it from a copy")
        }
        guard let presharedKey = PresharedKey(base64: try text(Self.presharedKey)), !presharedKey.isZero else {
            throw CommandFailure("\(path)/\(Self.presharedKey) is no pre-shared key", fix: "restore it from a copy")
        }
        return Keys(privateKey: privateKey, presharedKey: presharedKey)
    }

    private func text(_ name: String) throws(CommandFailure) -> String {
        guard var bytes = try files.read(name) else { throw missing(name) }
        defer { wipe(&bytes) }
        return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }

    private func missing(_ name: String) -> CommandFailure {
        CommandFailure(
            "\(path)/\(name) is missing", status: ExitStatus.notFound,
            fix: "restore it from a copy, or run init elsewhere")
    }

    // MARK: - Users

    func users() throws(CommandFailure) -> UserFile { try UserFile.read(files) }

    /// The stored uses of addresses. A damaged file is copied, and replaced by one that has all addresses rest, so that the next start
    /// knows of it too.
    /// - Returns: The contents, and the damage.
    /// - Throws: if the system cannot read the file, or cannot write the copy or the replacement. The file stays as it is then.
    func addresses() throws(CommandFailure) -> (file: AddressFile, damage: CommandFailure?) {
        guard let bytes = try files.read(AddressFile.name) else { return (AddressFile(), nil) }
        do throws(CommandFailure) { return (try AddressFile(json: bytes), nil) } catch {
            let copy = try keepUnreadable(bytes)
            var file = AddressFile()
            file.othersSince = ProcessEnvironment.wallClock() / 1_000_000_000
            try write(file)
            return (file, CommandFailure("\(error); its copy is \(path)/\(copy)"))
        }
    }

    /// Writes a copy of a damaged file of addresses under a name that no other file has.
    /// - Returns: The name.
    private func keepUnreadable(_ bytes: [UInt8]) throws(CommandFailure) -> String {
        var number = 1
        while true {
            let name = AddressFile.unreadable(number)
            guard let present = try files.read(name) else {
                try files.write(bytes, to: name)
                return name
            }
            // An earlier start may have failed after its copy.
            if present == bytes { return name }
            number += 1
        }
    }

    func write(_ addresses: AddressFile) throws(CommandFailure) { try addresses.write(files) }

    /// Changes the file of users, while nobody else does.
    func changeUsers<Result>(
        _ body: (inout UserFile) throws(CommandFailure) -> Result
    ) throws(CommandFailure) -> Result {
        // A folder of its own, whose lock goes with it.
        let own = try ServerDirectory(existing: path)
        try own.files.lock()
        var file = try UserFile.read(own.files)
        let result = try body(&file)
        try file.write(own.files)
        return result
    }

    /// What tells one state of the file of users from another.
    struct Stamp: Hashable, Sendable {
        private var identity: FileIdentity?
        private var seconds = 0
        private var nanoseconds = 0

        /// The present one. The file is replaced as a whole, so a change is another file.
        init(_ path: String) {
            let file = "\(path)/\(UserFile.name)"
            identity = FileIdentity(of: file)
            var status = stat()
            guard unsafe lstat(file, &status) == 0 else { return }
            (seconds, nanoseconds) = Self.modification(status)
        }
    }

    var stamp: Stamp { Stamp(path) }
}
