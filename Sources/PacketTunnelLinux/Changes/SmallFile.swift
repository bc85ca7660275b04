// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Files that are read and written whole: journals, kernel settings, /etc/resolv.conf.
enum SmallFile {
    /// The most that is read.
    static let limit = 4 << 20

    /// A file's bytes; nil where there is none.
    static func read(_ path: String) throws(LinuxNetworkError) -> [UInt8]? {
        let number = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard number >= 0 else {
            if errno == ENOENT || errno == ENOTDIR || errno == ESRCH { return nil }
            throw LinuxNetworkError(.kernelSetting(path: path), errno: errno)
        }
        let descriptor = OwnedDescriptor(number)
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < limit {
            let count = unsafe chunk.withUnsafeMutableBytes { buffer in
                SystemCall.retry { unsafe systemRead(descriptor.number, buffer) }
            }
            if count < 0, errno == ESRCH { return nil }
            guard count >= 0 else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return bytes
    }

    /// A file's text without white space at its ends; nil where there is none.
    static func text(_ path: String) throws(LinuxNetworkError) -> String? {
        guard let bytes = try read(path) else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        return String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }

    /// Writes over what a file holds, which must exist, and stays the same file.
    static func overwrite(_ path: String, with bytes: [UInt8]) throws(LinuxNetworkError) {
        let number = unsafe open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        guard number >= 0 else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
        let descriptor = OwnedDescriptor(number)
        let written = unsafe bytes.withUnsafeBytes { buffer in
            SystemCall.retry { unsafe systemWrite(descriptor.number, buffer) }
        }
        guard written == bytes.count else { throw LinuxNetworkError(.kernelSetting(path: path), errno: errno) }
    }
}

private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
    unsafe read(descriptor, buffer.baseAddress, buffer.count)
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    unsafe write(descriptor, bytes.baseAddress, bytes.count)
}
