// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// Files that are read and written as a whole: journals, kernel settings, /etc/resolv.conf.
package enum SmallFile {
    /// The maximum number of bytes to read.
    static let limit = 4 << 20

    /// Reads a file. Returns `nil` if it does not exist.
    /// - Throws: `EFBIG` for more than `limit` bytes; `ELOOP` for a symbolic link to itself.
    static func read(_ path: String, limit: Int = Self.limit) throws(LinuxNetworkError) -> [UInt8]? {
        // If a named pipe has this path, opening it must not block.
        let number = SystemCall.open(path, O_RDONLY | O_NONBLOCK)
        guard number >= 0 else {
            if errno == ENOENT || errno == ENOTDIR || errno == ESRCH { return nil }
            throw LinuxNetworkError(.kernelSetting(path: path), errno: errno)
        }
        let descriptor = OwnedDescriptor(number)
        if let bytes = SystemCall.readAll(descriptor.number, limit: limit) { return bytes }
        if errno == ESRCH { return nil }
        throw LinuxNetworkError(.kernelSetting(path: path), errno: errno)
    }

    /// Reads the text of a file without white space at its ends. Returns `nil` if it does not exist.
    package static func text(_ path: String) throws(LinuxNetworkError) -> String? {
        try read(path).map(trimmed)
    }

    fileprivate static func trimmed(_ bytes: [UInt8]) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        return String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }

    /// Overwrites an existing file in place, so that its inode stays the same.
    static func overwrite(_ path: String, with bytes: [UInt8]) throws(LinuxNetworkError) {
        let number = SystemCall.open(path, O_WRONLY | O_TRUNC)
        guard number >= 0 else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
        let descriptor = OwnedDescriptor(number)
        guard SystemCall.writeAll(descriptor.number, bytes) else {
            throw LinuxNetworkError(.kernelSetting(path: path), errno: errno)
        }
    }
}

/// A kernel setting whose file stays open, so that it can be read and written even if no descriptor is free.
final class HeldSetting {
    private let path: String
    private let descriptor: OwnedDescriptor

    init(_ path: String) throws(LinuxNetworkError) {
        let number = SystemCall.open(path, O_RDWR)
        guard number >= 0 else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
        self.path = path
        descriptor = OwnedDescriptor(number)
    }

    /// The text without white space at its ends.
    func text() throws(LinuxNetworkError) -> String {
        guard lseek(descriptor.number, 0, SEEK_SET) == 0,
            let bytes = SystemCall.readAll(descriptor.number, limit: SmallFile.limit)
        else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
        return SmallFile.trimmed(bytes)
    }

    func overwrite(with text: String) throws(LinuxNetworkError) {
        guard lseek(descriptor.number, 0, SEEK_SET) == 0, SystemCall.writeAll(descriptor.number, Array(text.utf8))
        else {
            throw LinuxNetworkError(.kernelSetting(path: path), errno: errno)
        }
    }
}
