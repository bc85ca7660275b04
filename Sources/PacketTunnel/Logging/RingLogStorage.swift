// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// Opens and makes log files.
enum RingLogStorage {
    /// Opens the file, or makes it, under its lock: of two processes that come first, one makes it.
    static func open(
        _ path: String, _ geometry: RingLogGeometry
    ) throws(RingLogError) -> (RingLogMapping, RingLogGeometry) {
        let file = try descriptor(path, O_RDWR | O_CREAT)
        // It may have come from an archive or another program with a wider mode.
        if try status(file.number, path).mode & 0o077 != 0, fchmod(file.number, 0o600) != 0 {
            throw .system(path: path, operation: "fchmod", errno: errno)
        }
        let lockResult = lockFile(file.number)
        guard lockResult == 0 else { throw .system(path: path, operation: "flock", errno: lockResult) }
        // In so many words: a mapping keeps the lock when only the descriptor is closed.
        defer { _ = flock(file.number, LOCK_UN) }
        let byteCount = try status(file.number, path).size
        let header = read(file.number)
        // All zero: whoever made it died before the header was there.
        let isNew = byteCount == 0 || (!header.isEmpty && header.allSatisfy { $0 == 0 })
        let actual: RingLogGeometry
        if isNew {
            try format(file.number, geometry, path)
            actual = geometry
        } else {
            actual = try RingLogGeometry(header: header, fileByteCount: byteCount, path: path)
        }
        return (try map(file.number, actual, isWritable: true, path), actual)
    }

    /// Opens the file, which must be there.
    static func openForReading(_ path: String) throws(RingLogError) -> (RingLogMapping, RingLogGeometry) {
        let file = try descriptor(path, O_RDONLY)
        let byteCount = try status(file.number, path).size
        let geometry = try RingLogGeometry(header: read(file.number), fileByteCount: byteCount, path: path)
        return (try map(file.number, geometry, isWritable: false, path), geometry)
    }

    /// Puts a new file in the place of the one that is there. That one is not changed: it may be mapped elsewhere.
    static func replace(
        _ path: String, _ geometry: RingLogGeometry
    ) throws(RingLogError) -> (RingLogMapping, RingLogGeometry) {
        // Whoever else found it unusable waits here, and then finds what we put there.
        let old = try descriptor(path, O_RDWR)
        let lockResult = lockFile(old.number)
        guard lockResult == 0 else { throw .system(path: path, operation: "flock", errno: lockResult) }
        defer { _ = flock(old.number, LOCK_UN) }
        if let present = FileStatus(of: path), try status(old.number, path).identity != present.identity {
            return try open(path, geometry)
        }
        let temporary = "\(path).\(getpid()).new"
        unsafe _ = unlink(temporary)
        let file = try descriptor(temporary, O_RDWR | O_CREAT | O_EXCL)
        do throws(RingLogError) {
            try format(file.number, geometry, temporary)
            guard unsafe rename(temporary, path) == 0 else {
                throw .system(path: path, operation: "rename", errno: errno)
            }
            return (try map(file.number, geometry, isWritable: true, path), geometry)
        } catch {
            unsafe _ = unlink(temporary)
            throw error
        }
    }

    // MARK: - Steps

    private static func descriptor(_ path: String, _ flags: Int32) throws(RingLogError) -> OwnedDescriptor {
        let number = SystemCall.open(path, flags | O_NOFOLLOW | O_NONBLOCK)
        guard number >= 0 else {
            let reason = errno
            if reason == ELOOP || reason == EISDIR || reason == ENXIO { throw .notAFile(path: path) }
            throw .system(path: path, operation: "open", errno: reason)
        }
        let file = OwnedDescriptor(number)
        guard try status(file.number, path).kind == .file else { throw .notAFile(path: path) }
        return file
    }

    private static func status(_ descriptor: Int32, _ path: String) throws(RingLogError) -> FileStatus {
        guard let status = FileStatus(of: descriptor) else {
            throw .system(path: path, operation: "fstat", errno: errno)
        }
        return status
    }

    /// The first bytes; none when they cannot be read, which no header is.
    private static func read(_ descriptor: Int32) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 24)
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe pread(descriptor, buffer.baseAddress, buffer.count, 0)
        }
        return Array(bytes.prefix(max(0, count)))
    }

    private static func format(
        _ descriptor: Int32, _ geometry: RingLogGeometry, _ path: String
    ) throws(RingLogError) {
        let result = allocateBlocks(descriptor, byteCount: geometry.fileByteCount)
        guard result == 0 else { throw .system(path: path, operation: "fallocate", errno: result) }
        guard ftruncate(descriptor, off_t(geometry.fileByteCount)) == 0 else {
            throw .system(path: path, operation: "ftruncate", errno: errno)
        }
        let header = geometry.headerBytes
        let count = unsafe header.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        guard count == header.count else { throw .system(path: path, operation: "pwrite", errno: errno) }
    }

    private static func map(
        _ descriptor: Int32, _ geometry: RingLogGeometry, isWritable: Bool, _ path: String
    ) throws(RingLogError) -> RingLogMapping {
        try RingLogMapping(
            descriptor: descriptor, byteCount: geometry.fileByteCount, isWritable: isWritable, path: path)
    }
}

/// Waits for the file's lock; zero or errno.
private func lockFile(_ descriptor: Int32) -> Int32 {
    SystemCall.retry { flock(descriptor, LOCK_EX) } == 0 ? 0 : errno
}
