// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A directory of small files that nobody else may change, or even read: who may is checked at each use, by descriptor, so
/// that neither a link nor a change of mode meanwhile gets around it.
///
/// Files are replaced as a whole: a reader sees the old one or the new one, a crash included.
package final class PrivateDirectory: Sendable {
    /// Who else may do what.
    package enum Access: Sendable {
        /// Others may read: directories of mode 0755, files of 0644, and nobody else writes.
        case readableByAll
        /// Nobody else may do anything: 0700 and 0600.
        case ownerOnly

        fileprivate var directoryMode: mode_t { self == .ownerOnly ? 0o700 : 0o755 }
        fileprivate var fileMode: mode_t { self == .ownerOnly ? 0o600 : 0o644 }
        fileprivate var forbidden: mode_t { self == .ownerOnly ? 0o077 : 0o022 }
    }

    /// The most bytes of a file.
    package static var byteLimit: Int { 1 << 20 }

    private let descriptor: Int32
    private let path: String
    private let access: Access

    /// Opens a directory; makes it, and those above it, where they are missing.
    /// - Throws: `.storage`; `.permissionDenied` when others may do more than `access` says, or own it.
    package convenience init(path: String, access: Access) throws(TunnelError) {
        try Self.makeDirectories(path, access)
        let descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure("open", path, errno) }
        try self.init(adopting: descriptor, path: path, access: access)
    }

    private init(adopting descriptor: Int32, path: String, access: Access) throws(TunnelError) {
        self.descriptor = descriptor
        self.path = path
        self.access = access
        _ = try check(descriptor, path, S_IFDIR)
    }

    deinit { _ = close(descriptor) }

    /// The directory `name` in this one, with the same access; nil when it is missing and not to be made.
    package func directory(_ name: String, makingIt: Bool) throws(TunnelError) -> PrivateDirectory? {
        try Self.check(name: name)
        let inner = "\(path)/\(name)"
        if makingIt, unsafe mkdirat(descriptor, name, access.directoryMode) != 0, errno != EEXIST {
            throw Self.failure("make", inner, errno)
        }
        let opened = unsafe openat(descriptor, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard opened >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("open", inner, errno)
        }
        return try PrivateDirectory(adopting: opened, path: inner, access: access)
    }

    // MARK: - Files

    /// The bytes of a file; nil when there is none.
    package func read(_ name: String) throws(TunnelError) -> [UInt8]? {
        try Self.check(name: name)
        let file = "\(path)/\(name)"
        // Not blocking: somebody might have put a pipe there.
        let opened = unsafe openat(descriptor, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard opened >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("open", file, errno)
        }
        defer { _ = close(opened) }
        let size = try check(opened, file, S_IFREG)
        guard size <= Self.byteLimit else {
            throw TunnelError(.storage, "'\(file)' is larger than \(Self.byteLimit) bytes", fix: "remove it")
        }
        var bytes = [UInt8](repeating: 0, count: size)
        var count = 0
        while count < size {
            let result = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(opened, buffer.baseAddress.map { unsafe $0 + count }, size - count, off_t(count))
            }
            if result < 0, errno == EINTR { continue }
            guard result >= 0 else { throw Self.failure("read", file, errno) }
            if result == 0 { break }
            count += result
        }
        // Cut in place: another copy would be one more of a secret.
        bytes.removeSubrange(count...)
        return bytes
    }

    /// Puts a file there with these bytes, instead of the one before.
    package func write(_ bytes: [UInt8], to name: String) throws(TunnelError) {
        try Self.check(name: name)
        let file = "\(path)/\(name)"
        guard bytes.count <= Self.byteLimit else {
            throw TunnelError(.storage, "'\(file)' would be larger than \(Self.byteLimit) bytes")
        }
        // The dot keeps it out of listings; names with one are refused.
        let temporary = ".\(name).\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
        let opened = unsafe openat(
            descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, access.fileMode)
        guard opened >= 0 else { throw Self.failure("write", file, errno) }
        do throws(TunnelError) {
            defer { _ = close(opened) }
            // The process's mask may have taken away what readers need.
            guard fchmod(opened, access.fileMode) == 0 else { throw Self.failure("write", file, errno) }
            try Self.write(bytes, to: opened, file)
            guard fsync(opened) == 0 else { throw Self.failure("write", file, errno) }
            guard unsafe renameat(descriptor, temporary, descriptor, name) == 0 else {
                throw Self.failure("write", file, errno)
            }
        } catch {
            _ = unsafe unlinkat(descriptor, temporary, 0)
            throw error
        }
        // Makes the new name last; where the file system cannot do that there is nothing better.
        _ = fsync(descriptor)
    }

    private static func write(_ bytes: [UInt8], to opened: Int32, _ file: String) throws(TunnelError) {
        var written = 0
        while written < bytes.count {
            let result = unsafe bytes.withUnsafeBytes { buffer in
                unsafe pwrite(
                    opened, buffer.baseAddress.map { unsafe $0 + written }, bytes.count - written, off_t(written))
            }
            if result < 0, errno == EINTR { continue }
            guard result > 0 else { throw Self.failure("write", file, errno) }
            written += result
        }
    }

    /// Removes a file; none is fine.
    package func remove(_ name: String) throws(TunnelError) {
        try Self.check(name: name)
        guard unsafe unlinkat(descriptor, name, 0) == 0 || errno == ENOENT else {
            throw Self.failure("remove", "\(path)/\(name)", errno)
        }
        _ = fsync(descriptor)
    }

    /// Removes an inner directory with its files; none is fine.
    package func removeDirectory(_ name: String) throws(TunnelError) {
        guard let inner = try directory(name, makingIt: false) else { return }
        for file in try inner.entries(hidden: true) where unsafe unlinkat(inner.descriptor, file, 0) != 0 {
            if errno != ENOENT { throw Self.failure("remove", "\(inner.path)/\(file)", errno) }
        }
        guard unsafe unlinkat(descriptor, name, AT_REMOVEDIR) == 0 || errno == ENOENT else {
            throw Self.failure("remove", inner.path, errno)
        }
        _ = fsync(descriptor)
    }

    /// The names in the directory, sorted; without those that nothing here could have written.
    package func names() throws(TunnelError) -> [String] {
        try entries(hidden: false).filter(Self.isName).sorted()
    }

    private func entries(hidden: Bool) throws(TunnelError) -> [String] {
        // A descriptor of its own: reading a directory moves a position and ends with a close.
        let listed = unsafe openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard listed >= 0 else { throw Self.failure("list", path, errno) }
        guard let stream = unsafe fdopendir(listed) else {
            let error = errno
            _ = close(listed)
            throw Self.failure("list", path, error)
        }
        defer { _ = unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name != ".", name != "..", hidden || !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    // MARK: - Checks

    /// Whether it can be the name of a file: 1 to 128 letters, digits, '-', '_' or '.', and no '.' first.
    package static func isName(_ name: String) -> Bool {
        (1...128).contains(name.utf8.count) && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: ".")
            }
    }

    private static func check(name: String) throws(TunnelError) {
        guard isName(name) else {
            throw TunnelError(
                .storage, "'\(name)' cannot be the name of a file",
                fix: "use 1 to 128 letters, digits, '-', '_' or '.', and no '.' first")
        }
    }

    /// Checks kind, owner and mode of what is open; returns its size.
    private func check(_ opened: Int32, _ path: String, _ kind: mode_t) throws(TunnelError) -> Int {
        var status = stat()
        guard unsafe fstat(opened, &status) == 0 else { throw Self.failure("check", path, errno) }
        guard status.st_mode & S_IFMT == kind else {
            throw TunnelError(
                .storage, "'\(path)' is not a \(kind == S_IFDIR ? "directory" : "file")", fix: "remove it")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw TunnelError(
                .permissionDenied, "'\(path)' belongs to user \(status.st_uid)",
                fix: "give it to the user that runs this")
        }
        let mode = status.st_mode & 0o7777
        guard mode & access.forbidden == 0 else {
            let wanted = kind == S_IFDIR ? access.directoryMode : access.fileMode
            throw TunnelError(
                .permissionDenied, "'\(path)' is open to others: its mode is \(String(mode, radix: 8))",
                fix: "chmod \(String(wanted, radix: 8)) it, and replace secrets that others may have read")
        }
        return Int(status.st_size)
    }

    private static func makeDirectories(_ path: String, _ access: Access) throws(TunnelError) {
        guard path.utf8.first == UInt8(ascii: "/") else {
            throw TunnelError(.storage, "'\(path)' is not an absolute path", fix: "begin it with '/'")
        }
        var partial = ""
        for part in path.split(separator: "/") {
            partial += "/\(part)"
            if unsafe mkdir(partial, access.directoryMode) != 0, errno != EEXIST, errno != EISDIR, errno != EROFS {
                throw failure("make", partial, errno)
            }
        }
    }

    private static func failure(_ operation: String, _ path: String, _ error: Int32) -> TunnelError {
        let isDenied = error == EACCES || error == EPERM
        return TunnelError(
            isDenied ? .permissionDenied : .storage,
            "cannot \(operation) '\(path)': \(unsafe String(cString: strerror(error)))",
            fix: isDenied ? "run as its owner or as root" : "")
    }
}
