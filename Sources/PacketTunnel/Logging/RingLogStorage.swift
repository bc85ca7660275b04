// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// Opens and creates log files.
enum RingLogStorage {
    /// The time to wait for the lock of a file.
    private static let lockLimit = Duration.seconds(5)

    /// Opens the file, or creates it, under its lock, so that only one of two concurrent processes creates it.
    static func open(
        _ path: String, _ geometry: RingLogGeometry
    ) throws(RingLogError) -> (RingLogContent, RingLogGeometry) {
        let file = try descriptor(path, O_RDWR | O_CREAT)
        // The file may come from an archive or another program and have a wider mode.
        if try status(file.number, path).mode & 0o077 != 0, fchmod(file.number, 0o600) != 0 {
            throw .system(path: path, operation: "fchmod", errno: errno)
        }
        // The descriptor stays open and would keep the lock, so unlock it explicitly.
        let number = file.number
        let lockResult = FileLock.acquire(number, within: lockLimit)
        defer { if lockResult == 0 { _ = flock(number, LOCK_UN) } }
        let present = try presentGeometry(number, path)
        // A complete file needs no lock, and the process that holds the lock may be stopped.
        guard lockResult == 0 || present != nil else {
            throw .system(path: path, operation: "flock", errno: lockResult)
        }
        if present == nil { try make(number, geometry, path) }
        return (RingLogContent(file, present ?? geometry), present ?? geometry)
    }

    /// Opens the file, which must exist.
    static func openForReading(_ path: String) throws(RingLogError) -> (RingLogContent, RingLogGeometry) {
        let file = try descriptor(path, O_RDONLY)
        let geometry = try presentGeometry(file.number, path) ?? .standard
        return (RingLogContent(file, geometry), geometry)
    }

    /// Replaces the file with a new one. The old file is not changed: another process may have it open.
    static func replace(
        _ path: String, _ geometry: RingLogGeometry
    ) throws(RingLogError) -> (RingLogContent, RingLogGeometry) {
        // Another process that found the file unusable waits here, and then finds the new file.
        let old = try descriptor(path, O_RDWR)
        let lockResult = FileLock.acquire(old.number, within: lockLimit)
        guard lockResult == 0 else { throw .system(path: path, operation: "flock", errno: lockResult) }
        defer { _ = flock(old.number, LOCK_UN) }
        if let present = FileStatus(of: path), try status(old.number, path).identity != present.identity {
            return try open(path, geometry)
        }
        let temporary = "\(path).\(getpid()).new"
        unsafe _ = unlink(temporary)
        let file = try descriptor(temporary, O_RDWR | O_CREAT | O_EXCL)
        do throws(RingLogError) {
            try make(file.number, geometry, temporary)
            guard unsafe rename(temporary, path) == 0 else {
                throw .system(path: path, operation: "rename", errno: errno)
            }
        } catch {
            unsafe _ = unlink(temporary)
            throw error
        }
        return (RingLogContent(file, geometry), geometry)
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

    /// Returns the geometry of a log; `nil` if the file has no header because it is empty or its creator died before it
    /// wrote one.
    private static func presentGeometry(_ descriptor: Int32, _ path: String) throws(RingLogError) -> RingLogGeometry? {
        let byteCount = try status(descriptor, path).size
        let header = read(descriptor, 24, at: 0)
        // A header that cannot be read counts as foreign.
        if byteCount == 0 || (!header.isEmpty && RingLogGeometry.isBlank(header)) { return nil }
        return try RingLogGeometry(header: header, fileByteCount: byteCount, path: path)
    }

    /// Makes the file an empty log.
    private static func make(
        _ descriptor: Int32, _ geometry: RingLogGeometry, _ path: String
    ) throws(RingLogError) {
        if let failure = format(descriptor, geometry, RingLogContent.Counters(last: 0, cleared: 0)) {
            throw .system(path: path, operation: failure.operation, errno: failure.errno)
        }
    }

    /// Sets the size of a log file and then writes its header, so that a reader finds either no header or a complete
    /// log.
    /// - Returns: The step that failed; `nil` on success.
    static func format(
        _ descriptor: Int32, _ geometry: RingLogGeometry, _ counters: RingLogContent.Counters
    ) -> SystemError? {
        let result = allocateBlocks(descriptor, byteCount: geometry.fileByteCount)
        guard result == 0 else { return SystemError("fallocate", errno: result) }
        guard ftruncate(descriptor, off_t(geometry.fileByteCount)) == 0 else {
            return SystemError("ftruncate", errno: errno)
        }
        var header = geometry.headerBytes
        header += [UInt8](repeating: 0, count: RingLogGeometry.lastSequenceOffset - header.count)
        header += counters.bytes
        return write(descriptor, header, at: 0) ? nil : SystemError("pwrite", errno: errno)
    }

    // MARK: - Bytes

    /// Reads at most `count` bytes; fewer, or none, if the file ends before them or they cannot be read.
    static func read(_ descriptor: Int32, _ count: Int, at offset: Int) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            let result = SystemCall.retry { unsafe pread(descriptor, buffer.baseAddress, count, off_t(offset)) }
            filled = max(0, result)
        }
    }

    /// The counters in the header; `nil` if another program truncated or overwrote the file, so that the header is not
    /// that of a log.
    static func counters(_ descriptor: Int32) -> RingLogContent.Counters? {
        let byteCount = RingLogGeometry.clearedOffset + 8
        return unsafe withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 8) { header in
            let count = SystemCall.retry { unsafe pread(descriptor, header.baseAddress, byteCount, 0) }
            guard count == byteCount, unsafe header.starts(with: RingLogGeometry.magic) else { return nil }
            func word(_ offset: Int) -> UInt64 {
                unsafe UInt64(littleEndian: header.load(fromByteOffset: offset, as: UInt64.self))
            }
            return RingLogContent.Counters(
                last: word(RingLogGeometry.lastSequenceOffset), cleared: word(RingLogGeometry.clearedOffset))
        }
    }

    /// Writes a counter in one system call, so that readers never see half of it.
    static func write(_ descriptor: Int32, _ word: UInt64, at offset: Int) -> Bool {
        unsafe withUnsafeBytes(of: word.littleEndian) { raw in
            SystemCall.retry { unsafe pwrite(descriptor, raw.baseAddress, raw.count, off_t(offset)) } == raw.count
        }
    }

    /// Writes bytes over those in the file.
    /// - Returns: whether all of them were written; if not, `errno` has the reason.
    static func write(_ descriptor: Int32, _ bytes: [UInt8], at offset: Int) -> Bool {
        let count = unsafe bytes.withUnsafeBytes { raw in
            SystemCall.retry { unsafe pwrite(descriptor, raw.baseAddress, raw.count, off_t(offset)) }
        }
        return count == bytes.count
    }
}
