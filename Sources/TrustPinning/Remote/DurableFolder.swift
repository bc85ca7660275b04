// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A folder of small files that only their owner may read. Each is replaced as a whole, and is on disk when a function
/// returns: after a crash there is the old file or the new one.
///
/// Foundation's atomic writing does not wait for the disk, so that a counter which was raised could be back at its old
/// value after a crash.
struct DurableFolder: ~Copyable {
    private let descriptor: Int32
    private let path: String

    /// The most bytes of a file.
    static let byteLimit = 8 << 20

    /// Opens a folder; nil if it is not there and not to be made.
    init?(path: String, makingIt: Bool) throws(EnvelopeError) {
        var opened = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if opened < 0, errno == ENOENT, makingIt {
            try Self.make(path)
            opened = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }
        guard opened >= 0 else {
            if errno == ENOENT, !makingIt { return nil }
            throw Self.failure("open", path)
        }
        descriptor = opened
        self.path = path
    }

    deinit { _ = close(descriptor) }

    /// Keeps other processes out that ask for the same, until this value is gone.
    borrowing func lock() throws(EnvelopeError) {
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { throw Self.failure("lock", path) }
        }
    }

    /// The bytes of a file; nil only if there is none.
    borrowing func read(_ name: String) throws(EnvelopeError) -> [UInt8]? {
        // Not blocking: somebody might have put a pipe there.
        let file = unsafe openat(descriptor, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("read", "\(path)/\(name)")
        }
        defer { _ = close(file) }
        var status = stat()
        guard unsafe fstat(file, &status) == 0 else { throw Self.failure("read", "\(path)/\(name)") }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.byteLimit else {
            throw EnvelopeError(.storeFailed, "'\(path)/\(name)' is no file of this store")
        }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var count = 0
        while count < bytes.count {
            let (start, size) = (count, bytes.count - count)
            let result = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(file, buffer.baseAddress.map { unsafe $0 + start }, size, off_t(start))
            }
            if result < 0, errno == EINTR { continue }
            guard result >= 0 else { throw Self.failure("read", "\(path)/\(name)") }
            if result == 0 { break }
            count += result
        }
        bytes.removeSubrange(count...)
        return bytes
    }

    /// Puts a file there with these bytes, instead of the one before.
    borrowing func write(_ bytes: [UInt8], to name: String) throws(EnvelopeError) {
        let temporary = ".\(name).\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
        let file = unsafe openat(descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Self.failure("write", "\(path)/\(name)") }
        do throws(EnvelopeError) {
            defer { _ = close(file) }
            try write(bytes, to: file, name)
            guard fsync(file) == 0, unsafe renameat(descriptor, temporary, descriptor, name) == 0 else {
                throw Self.failure("write", "\(path)/\(name)")
            }
        } catch {
            _ = unsafe unlinkat(descriptor, temporary, 0)
            throw error
        }
        // Makes the new name last; where the file system cannot do that there is nothing better.
        _ = fsync(descriptor)
    }

    private borrowing func write(_ bytes: [UInt8], to file: Int32, _ name: String) throws(EnvelopeError) {
        var written = 0
        while written < bytes.count {
            let (start, size) = (written, bytes.count - written)
            let result = unsafe bytes.withUnsafeBytes { buffer in
                unsafe pwrite(file, buffer.baseAddress.map { unsafe $0 + start }, size, off_t(start))
            }
            if result < 0, errno == EINTR { continue }
            guard result > 0 else { throw Self.failure("write", "\(path)/\(name)") }
            written += result
        }
    }

    /// Makes a folder and those above it that are missing.
    private static func make(_ path: String) throws(EnvelopeError) {
        var made = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/") {
            made += "/\(part)"
            guard unsafe mkdir(made, 0o700) != 0 else { continue }
            // Folders that are there already may be read-only, which only matters for those that are not.
            var status = stat()
            let reason = errno
            guard unsafe stat(made, &status) == 0 else {
                errno = reason
                throw failure("make", made)
            }
        }
    }

    private static func failure(_ what: String, _ path: String) -> EnvelopeError {
        let reason = unsafe strerror(errno).map { unsafe String(cString: $0) } ?? "error \(errno)"
        return EnvelopeError(.storeFailed, "cannot \(what) '\(path)': \(reason)")
    }
}
