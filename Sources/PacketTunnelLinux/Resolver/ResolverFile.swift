// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import TunnelSystem

/// A snapshot of resolv.conf(5): a symbolic link, or a file with its bytes.
package struct ResolverFile: Hashable, Sendable, Codable {
    /// The target of the link; `nil` if it is not a link.
    package var link: String?
    /// The bytes that programs read, in Base64; `nil` if there is no file, or the link leads to none.
    package var text: String?

    package init(link: String? = nil, bytes: [UInt8]?) {
        self.link = link
        text = bytes.map { Data($0).base64EncodedString() }
    }

    /// The maximum number of bytes to read. Programs read fewer.
    static let limit = 65_536

    /// Reads the file at `path`. A link to itself, and a file of more than 65,536 bytes, count as having no bytes.
    init(at path: String) throws(LinuxNetworkError) {
        let link = SystemCall.linkTarget(path)
        do throws(LinuxNetworkError) {
            self.init(link: link, bytes: try SmallFile.read(path, limit: Self.limit))
        } catch {
            guard [ELOOP, EFBIG, EISDIR, ENXIO].contains(error.errno) else { throw error }
            self.init(link: link, bytes: nil)
        }
    }

    /// The bytes that programs read; `nil` if there are none.
    var bytes: [UInt8]? { text.flatMap { Data(base64Encoded: $0) }.map { [UInt8]($0) } }

    private var contents: String { bytes.map { String(decoding: $0, as: UTF8.self) } ?? "" }

    /// The name servers in the file.
    var servers: [String] { ResolvConf.servers(in: contents) }

    /// Whether the first line is that of openresolv or of Debian's resolvconf.
    var isByResolvconf: Bool {
        contents.split(separator: "\n").first?.contains("enerated by resolvconf") ?? false
    }

    /// Whether systemd-resolved is the only server in the file.
    var asksResolvedOnly: Bool {
        let servers = servers
        return !servers.isEmpty && servers.allSatisfy { $0 == "127.0.0.53" || $0 == "127.0.0.54" }
    }

    // MARK: - Writing

    /// Makes the file at `path` a link or a regular file, like this one. A regular file keeps the bytes that programs
    /// read now.
    func restoreKind(at path: String) throws(LinuxNetworkError) {
        let now = try ResolverFile(at: path)
        guard now.link != link else { return }
        if let link {
            try Self.replace(path) { unsafe symlink(link, $0) == 0 }
        } else {
            let bytes = now.bytes ?? []
            try Self.replace(path) { new in
                let number = SystemCall.open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o644)
                guard number >= 0 else { return false }
                let descriptor = OwnedDescriptor(number)
                // Programs of all users read the file, so set its mode regardless of the process's umask.
                return SystemCall.writeAll(descriptor.number, bytes) && fchmod(descriptor.number, 0o644) == 0
            }
        }
    }

    /// Makes the file at `path` equal to this one. Does nothing if this one has no bytes.
    func restore(at path: String) throws(LinuxNetworkError) {
        guard let bytes else { return }
        try restoreKind(at: path)
        guard try ResolverFile(at: path).bytes != bytes else { return }
        try SmallFile.overwrite(path, with: bytes)
    }

    /// Replaces `path` with a new file, atomically.
    private static func replace(_ path: String, _ make: (String) -> Bool) throws(LinuxNetworkError) {
        let new = path + ".culvert"
        unsafe _ = unlink(new)
        guard make(new), unsafe rename(new, path) == 0 else {
            let error = errno
            unsafe _ = unlink(new)
            throw LinuxNetworkError(.kernelSetting(path: path), errno: error)
        }
    }
}
