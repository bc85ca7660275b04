// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// The reason that a file could not be stored or found in a ``PrivateDirectory``.
package struct StorageProblem: Sendable {
    /// Whether permissions are the reason: this user has too few, or other users have too many.
    package var isDenied = false
    package var reason: String
    /// The remedy; empty if there is none.
    package var fix = ""
}

/// The errors of a layer that keeps files.
package protocol StorageFailure: Error {
    init(_ problem: StorageProblem)
}

/// A directory of small files that no other user may change or, if required, read. Each use checks permissions by descriptor,
/// so a link or a change of mode cannot bypass the check.
///
/// Files are replaced as a whole, and are on disk when a function returns: even after a crash, a reader gets the old or the
/// new content.
package final class PrivateDirectory<Failure: StorageFailure>: Sendable {
    private let descriptor: OwnedDescriptor
    private let path: String
    private let access: StorageAccess
    private let byteLimit: Int

    /// Opens a directory, and creates it and its parents if they are missing.
    /// - Parameters:
    ///   - path: an absolute path.
    ///   - byteLimit: the largest size of a file, in bytes.
    /// - Throws: also if other users have more access than `access` permits, or own it.
    package convenience init(path: String, access: StorageAccess, byteLimit: Int = 1 << 20) throws(Failure) {
        guard let descriptor = try Self.open(path, access, makingIt: true) else {
            throw Self.failure("open", path, ENOENT)
        }
        try self.init(adopting: descriptor, path: path, access: access, byteLimit: byteLimit)
    }

    /// Opens an existing directory; `nil` if it is missing.
    package convenience init?(existing path: String, access: StorageAccess, byteLimit: Int) throws(Failure) {
        guard let descriptor = try Self.open(path, access, makingIt: false) else { return nil }
        try self.init(adopting: descriptor, path: path, access: access, byteLimit: byteLimit)
    }

    private static func open(_ path: String, _ access: StorageAccess, makingIt: Bool) throws(Failure) -> Int32? {
        guard path.utf8.first == UInt8(ascii: "/") else {
            throw problem("'\(path)' is not an absolute path", fix: "begin it with '/'")
        }
        let flags = O_RDONLY | O_DIRECTORY | access.linkFlag
        var descriptor = SystemCall.open(path, flags)
        if descriptor < 0, errno == ENOENT {
            guard makingIt else { return nil }
            try makeDirectories(path, mode: access.directoryMode)
            descriptor = SystemCall.open(path, flags)
        }
        guard descriptor >= 0 else { throw failure("open", path, errno) }
        return descriptor
    }

    private init(adopting descriptor: Int32, path: String, access: StorageAccess, byteLimit: Int) throws(Failure) {
        self.descriptor = OwnedDescriptor(descriptor)
        self.path = path
        self.access = access
        self.byteLimit = byteLimit
        _ = try check(descriptor, path, .folder)
    }

    /// Returns the directory `name` in this one, with the same access. Creates a missing directory if `makingIt` is
    /// true; otherwise returns `nil` for it.
    package func directory(_ name: String, makingIt: Bool) throws(Failure) -> PrivateDirectory? {
        try check(name: name)
        let inner = "\(path)/\(name)"
        if makingIt, unsafe mkdirat(descriptor.number, name, access.directoryMode) != 0, errno != EEXIST {
            throw Self.failure("make", inner, errno)
        }
        let opened = unsafe openat(descriptor.number, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard opened >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("open", inner, errno)
        }
        return try PrivateDirectory(adopting: opened, path: inner, access: access, byteLimit: byteLimit)
    }

    /// Takes the directory's lock, and holds it until this object is released. Other processes that call this wait.
    /// Removes the temporary files of killed writers.
    package func lock() throws(Failure) {
        guard SystemCall.retry({ flock(descriptor.number, LOCK_EX) }) == 0 else {
            throw Self.failure("lock", path, errno)
        }
        removeAbandonedFiles()
    }

    // MARK: - Files

    /// The bytes of a file; `nil` if there is none.
    package func read(_ name: String) throws(Failure) -> [UInt8]? {
        try check(name: name)
        let file = "\(path)/\(name)"
        // Non-blocking, since the file could be a pipe.
        let opened = unsafe openat(descriptor.number, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
        guard opened >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("open", file, errno)
        }
        defer { SystemCall.close(opened) }
        let size = try check(opened, file, .file)
        guard size <= byteLimit else {
            throw Self.problem("'\(file)' is larger than \(byteLimit) bytes", fix: "remove it")
        }
        var bytes = [UInt8](repeating: 0, count: size)
        var count = 0
        while count < size {
            let result = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe SystemCall.read(opened, into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
            }
            guard result >= 0 else { throw Self.failure("read", file, errno) }
            if result == 0 { break }
            count += result
        }
        // Shortened in place: a new array would be another copy of a secret.
        bytes.removeSubrange(count...)
        return bytes
    }

    /// Writes a file with these bytes, and replaces an earlier one. Removes the temporary files of killed writers.
    package func write(_ bytes: [UInt8], to name: String) throws(Failure) {
        try check(name: name)
        let file = "\(path)/\(name)"
        guard bytes.count <= byteLimit else {
            throw Self.problem("'\(file)' would be larger than \(byteLimit) bytes")
        }
        removeAbandonedFiles()
        var error = replace(name, by: bytes)
        // Another process that removes abandoned files may have found the temporary file before it was locked: retry.
        for _ in 1..<8 where error == ENOENT || error == EWOULDBLOCK { error = replace(name, by: bytes) }
        guard error == 0 else { throw Self.failure("write", file, error) }
        // Makes the new name durable. If the file system does not support it, there is no alternative.
        _ = fsync(descriptor.number)
    }

    /// Writes a temporary file and renames it to `name`.
    /// - Returns: 0, or the error number.
    private func replace(_ name: String, by bytes: [UInt8]) -> Int32 {
        let temporary = TemporaryName.make(for: name)
        // Other users cannot open it, so they cannot lock it before the writer does.
        let opened = unsafe openat(
            descriptor.number, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard opened >= 0 else { return errno }
        defer { SystemCall.close(opened) }
        // The lock shows that the writer is alive. On a file system without locks, temporary files are never removed.
        // Readers get access only once the file is locked. `fchmod` sets the mode, since the process's mask limits
        // `openat`.
        guard flock(opened, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK,
            fchmod(opened, access.fileMode) == 0, Self.write(bytes, to: opened), fsync(opened) == 0,
            unsafe renameat(descriptor.number, temporary, descriptor.number, name) == 0
        else {
            let error = errno
            _ = unsafe unlinkat(descriptor.number, temporary, 0)
            return error
        }
        return 0
    }

    /// Removes the temporary files of killed writers, since they may contain secrets. A living writer holds a lock on
    /// its file or, in an earlier version, has just created it. A file that cannot be removed stays for the next call.
    private func removeAbandonedFiles() {
        let latest = Int(time(nil)) - TemporaryName.leastAge
        for name in FolderContents.names(".", in: descriptor.number) ?? []
        where TemporaryName.isOne(name, prefix: access.sweptPrefix) {
            let opened = unsafe openat(
                descriptor.number, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
            guard opened >= 0 else { continue }
            defer { SystemCall.close(opened) }
            // If the clock was set back, the file is from the future, and counts as young.
            guard let status = FileStatus(of: opened), status.kind == .file, status.modified < latest,
                flock(opened, LOCK_EX | LOCK_NB) == 0
            else { continue }
            _ = unsafe unlinkat(descriptor.number, name, 0)
        }
    }

    private static func write(_ bytes: [UInt8], to opened: Int32) -> Bool {
        var written = 0
        while written < bytes.count {
            let result = unsafe bytes[written...].withUnsafeBytes { unsafe SystemCall.write(opened, $0) }
            guard result > 0 else { return false }
            written += result
        }
        return true
    }

    /// Gives a file another name, and replaces a file that has it.
    package func rename(_ name: String, to other: String) throws(Failure) {
        try check(name: name)
        try check(name: other)
        guard unsafe renameat(descriptor.number, name, descriptor.number, other) == 0 else {
            throw Self.failure("rename", "\(path)/\(name)", errno)
        }
        _ = fsync(descriptor.number)
    }

    /// Removes a file, if it exists. Removes the temporary files of killed writers.
    package func remove(_ name: String) throws(Failure) {
        try check(name: name)
        removeAbandonedFiles()
        guard unsafe unlinkat(descriptor.number, name, 0) == 0 || errno == ENOENT else {
            throw Self.failure("remove", "\(path)/\(name)", errno)
        }
        _ = fsync(descriptor.number)
    }

    /// Removes an inner directory with its files, if it exists.
    package func removeDirectory(_ name: String) throws(Failure) {
        guard let inner = try directory(name, makingIt: false) else { return }
        for file in try inner.entries() where unsafe unlinkat(inner.descriptor.number, file, 0) != 0 {
            if errno != ENOENT { throw Self.failure("remove", "\(inner.path)/\(file)", errno) }
        }
        guard unsafe unlinkat(descriptor.number, name, AT_REMOVEDIR) == 0 || errno == ENOENT else {
            throw Self.failure("remove", inner.path, errno)
        }
        _ = fsync(descriptor.number)
    }

    /// Returns the names in the directory, sorted, without those that this type could not have written.
    package func names() throws(Failure) -> [String] {
        try entries().filter { FileName.isValid($0, limit: access.nameLimit) }.sorted()
    }

    private func entries() throws(Failure) -> [String] {
        guard let names = FolderContents.names(".", in: descriptor.number) else {
            throw Self.failure("list", path, errno)
        }
        return names
    }

    // MARK: - Checks

    private func check(name: String) throws(Failure) {
        guard FileName.isValid(name, limit: access.nameLimit) else {
            throw Self.problem(
                "'\(name)' cannot be the name of a file",
                fix: "use 1 to \(access.nameLimit) letters, digits, '-', '_' or '.', and no '.' first")
        }
    }

    /// Checks the kind, owner and mode of an open file; returns its size.
    private func check(_ opened: Int32, _ path: String, _ kind: FileStatus.Kind) throws(Failure) -> Int {
        guard let status = FileStatus(of: opened) else { throw Self.failure("check", path, errno) }
        guard status.kind == kind else {
            throw Self.problem("'\(path)' is not a \(kind == .folder ? "directory" : "file")", fix: "remove it")
        }
        guard let forbidden = access.forbidden else { return status.size }
        guard status.owner == geteuid() || status.owner == 0 else {
            throw Self.problem(
                isDenied: true, "'\(path)' belongs to user \(status.owner)",
                fix: "change its owner to the user that runs this program")
        }
        guard status.mode & forbidden == 0 else {
            let wanted = kind == .folder ? access.directoryMode : access.fileMode
            throw Self.problem(
                isDenied: true, "'\(path)' is accessible to other users: its mode is \(String(status.mode, radix: 8))",
                fix: "chmod \(String(wanted, radix: 8)) it, and replace secrets that other users may have read")
        }
        return status.size
    }

    private static func makeDirectories(_ path: String, mode: mode_t) throws(Failure) {
        var partial = ""
        for part in path.split(separator: "/") {
            partial += "/\(part)"
            guard unsafe mkdir(partial, mode) != 0 else { continue }
            // Existing parents may be read-only, which matters only if one is missing.
            let error = errno
            guard FileStatus(of: partial) != nil else { throw failure("make", partial, error) }
        }
    }

    private static func failure(_ operation: String, _ path: String, _ error: Int32) -> Failure {
        let isDenied = SystemError.isDenied(error)
        return problem(
            isDenied: isDenied, "cannot \(operation) '\(path)': \(SystemError.words(error))",
            fix: isDenied ? "run as its owner or as root, or give it to the owner of its folder" : "")
    }

    private static func problem(isDenied: Bool = false, _ reason: String, fix: String = "") -> Failure {
        Failure(StorageProblem(isDenied: isDenied, reason: reason, fix: fix))
    }
}

/// The access of other users to a ``PrivateDirectory``.
package enum StorageAccess: Sendable {
    /// Other users may read: directories have mode 0755, files 0644. Only the owner writes.
    case readableByAll
    /// Other users have no access: 0700 and 0600.
    case ownerOnly
    /// An app's own folder: new files are as with `ownerOnly`, and the modes of old ones are not checked. The names of all stored
    /// files begin with `prefix`, and temporary files with other names are not removed.
    case asItIs(prefix: String)

    fileprivate var directoryMode: mode_t { isReadableByAll ? 0o755 : 0o700 }
    fileprivate var fileMode: mode_t { isReadableByAll ? 0o644 : 0o600 }
    private var isReadableByAll: Bool { if case .readableByAll = self { true } else { false } }
    /// The prefix of the names of files whose temporary files may be removed.
    fileprivate var sweptPrefix: String { if case .asItIs(let prefix) = self { prefix } else { "" } }
    private var isShared: Bool { if case .asItIs = self { true } else { false } }
    /// The mode bits that no file or directory may have; `nil` if modes are not checked.
    fileprivate var forbidden: mode_t? {
        switch self {
        case .readableByAll: 0o022
        case .ownerOnly: 0o077
        case .asItIs: nil
        }
    }
    /// Names derived from other names may be longer.
    fileprivate var nameLimit: Int { isShared ? 200 : FileName.limit }
    fileprivate var linkFlag: Int32 { isShared ? 0 : O_NOFOLLOW }
}

/// The names of temporary files, which are renamed to files of a ``PrivateDirectory``: `.NAME.` and 16 hexadecimal
/// digits, the first of them a letter. The dot keeps them out of listings. No other file of a store begins with a dot.
private enum TemporaryName {
    /// The least age of a removed file, in seconds, since writers of earlier versions do not lock their files.
    static let leastAge = 60

    static func make(for name: String) -> String {
        ".\(name).\(String(UInt64.random(in: 0xa000_0000_0000_0000...UInt64.max), radix: 16))"
    }

    /// Whether a name is a temporary name for a file whose name begins with `prefix`. Names with decimal digits only
    /// are excluded: the digits are probably a time that another program put there.
    static func isOne(_ name: String, prefix: String) -> Bool {
        guard name.utf8.first == UInt8(ascii: "."), let dot = name.lastIndex(of: "."), dot > name.startIndex else {
            return false
        }
        let digits = name[name.index(after: dot)...].utf8
        let isDecimal = digits.allSatisfy { (48...57).contains($0) }
        let isHexadecimal = digits.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
        let file = name[..<dot].dropFirst()
        return digits.count == 16 && isHexadecimal && !isDecimal && file.hasPrefix(prefix)
            && FileName.isValid(String(file), limit: 200)
    }
}

/// The names of files in a ``PrivateDirectory``.
package enum FileName {
    /// The usual length.
    package static let limit = 128

    /// Whether `name` can be the name of an interface and of its tunnel's files: 1 to 15 letters, digits and the signs
    /// `_=+.-`, which the kernel and wg-quick(8) accept.
    package static func isInterface(_ name: String) -> Bool {
        (1...15).contains(name.utf8.count) && name != "." && name != ".."
            && name.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || "_=+.-".utf8.contains(byte)
            }
    }

    /// Whether it can be the name of a file: 1 to `limit` letters, digits, '-', '_' or '.', and no '.' first.
    package static func isValid(_ name: String, limit: Int = FileName.limit) -> Bool {
        (1...limit).contains(name.utf8.count) && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: ".")
            }
    }
}

/// The names of the entries of a folder.
package enum FolderContents {
    /// The names, hidden ones included, in no order; `nil` if the folder cannot be read, with the reason in `errno`.
    /// - Parameter parent: a descriptor of the folder that a relative path starts from.
    package static func names(_ path: String, in parent: Int32 = AT_FDCWD) -> [String]? {
        // A separate descriptor: reading a directory moves a position and closes the descriptor.
        let listed = unsafe openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard listed >= 0 else { return nil }
        guard let stream = unsafe fdopendir(listed) else {
            let error = errno
            SystemCall.close(listed)
            errno = error
            return nil
        }
        defer { _ = unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                unsafe String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}
