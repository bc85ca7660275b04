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
        guard let bytes = try read(path) else { return nil }
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
