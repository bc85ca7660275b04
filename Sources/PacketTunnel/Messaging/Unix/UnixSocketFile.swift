// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Why a socket in the file system cannot be served.
public enum UnixSocketError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path has more bytes than a socket's address holds, none, or a zero byte.
    case invalidPath(String)
    /// Another process serves it.
    case alreadyRunning(path: String)
    /// There is a file that is no socket; nobody removes it for you.
    case notASocket(path: String)
    /// Others may change what is in the folder, so that anyone could put a socket of theirs there.
    case unsafeFolder(path: String)
    /// The system refused a step.
    case system(path: String, operation: String, errno: Int32)

    /// What is wrong, and with which path.
    public var description: String {
        switch self {
        case .invalidPath(let path): "'\(path)' cannot be the path of a socket"
        case .alreadyRunning(let path): "another process serves \(path)"
        case .notASocket(let path): "\(path) is a file and no socket; remove it"
        case .unsafeFolder(let path): "the folder \(path) can be changed by other users"
        case .system(let path, let operation, let errno):
            "\(path): \(operation): \(unsafe String(cString: strerror(errno))) (errno \(errno))"
        }
    }
}

/// A listening socket and its file. The file's lock, beside it, says who serves it: a process that died holds no lock.
final class UnixSocketFile: Sendable {
    let path: String
    let descriptor: SharedDescriptor
    private let lock: SharedDescriptor
    private let identity: Identity

    private struct Identity: Equatable {
        var device: UInt64
        var inode: UInt64
    }

    /// Binds and listens at `path`. A folder that is missing is made, for its owner only.
    /// - Parameter isForAll: whether other users may connect; who they are is checked then.
    init(path: String, isForAll: Bool) throws(UnixSocketError) {
        self.path = path
        guard unsafe UnixSocketFile.withAddress(path, { _, _ in true }) != nil else { throw .invalidPath(path) }
        try UnixSocketFile.prepareFolder(of: path, isForAll: isForAll)
        let lock = try UnixSocketFile.lock(path)
        if let status = UnixSocketFile.status(path) {
            guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path: path) }
            guard UnixSocketFile.isAbandoned(path) else { throw .alreadyRunning(path: path) }
            if unsafe unlink(path) != 0, errno != ENOENT {
                throw .system(path: path, operation: "unlink", errno: errno)
            }
        }
        let socket = OwnedDescriptor(UnixSocketSystem.makeSocket())
        guard socket.number >= 0 else { throw .system(path: path, operation: "socket", errno: errno) }
        let number = socket.number
        let bound = unsafe UnixSocketFile.withAddress(path) { address, length in
            unsafe UnixSocketSystem.bindPrivately(number, address, length)
        }
        guard bound == 0 else { throw .system(path: path, operation: "bind", errno: errno) }
        guard listen(number, 128) == 0, unsafe !isForAll || chmod(path, 0o666) == 0,
            let status = UnixSocketFile.status(path)
        else {
            let reason = errno
            unsafe _ = unlink(path)
            throw .system(path: path, operation: "listen", errno: reason)
        }
        identity = UnixSocketFile.identity(status)
        descriptor = SharedDescriptor(socket)
        self.lock = lock
    }

    deinit { close() }

    /// Closes the socket and removes its file, unless another has taken its place. Safe to repeat.
    func close() {
        guard !descriptor.isClosed else { return }
        if let status = UnixSocketFile.status(path), UnixSocketFile.identity(status) == identity {
            unsafe _ = unlink(path)
        }
        descriptor.close()
        lock.close()
    }

    // MARK: - Steps

    private static func prepareFolder(of path: String, isForAll: Bool) throws(UnixSocketError) {
        guard let slash = path.lastIndex(of: "/") else { return }
        let folder = slash == path.startIndex ? "/" : String(path[..<slash])
        if unsafe mkdir(folder, isForAll ? 0o755 : 0o700) != 0, errno != EEXIST {
            throw .system(path: folder, operation: "mkdir", errno: errno)
        }
        var status = stat()
        guard unsafe stat(folder, &status) == 0 else {
            throw .system(path: folder, operation: "stat", errno: errno)
        }
        let isShared = status.st_mode & 0o022 != 0 && status.st_mode & S_ISVTX == 0
        guard status.st_uid == 0 || status.st_uid == geteuid(), !isShared else { throw .unsafeFolder(path: folder) }
    }

    /// Takes the lock of whoever serves `path`. Its file stays when the server goes: removing it would race.
    private static func lock(_ path: String) throws(UnixSocketError) -> SharedDescriptor {
        let number = unsafe open("\(path).lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard number >= 0 else { throw .system(path: "\(path).lock", operation: "open", errno: errno) }
        let descriptor = SharedDescriptor(OwnedDescriptor(number))
        guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
            if errno == EWOULDBLOCK { throw .alreadyRunning(path: path) }
            throw .system(path: "\(path).lock", operation: "flock", errno: errno)
        }
        return descriptor
    }

    /// Whether nobody listens at `path` any more. A full queue, for one, is a sign of life.
    private static func isAbandoned(_ path: String) -> Bool {
        let socket = OwnedDescriptor(UnixSocketSystem.makeSocket())
        guard socket.number >= 0 else { return false }
        let number = socket.number
        let result = unsafe withAddress(path) { address, length in unsafe connect(number, address, length) }
        return result != 0 && (errno == ECONNREFUSED || errno == ENOENT)
    }

    private static func status(_ path: String) -> stat? {
        var status = stat()
        return unsafe lstat(path, &status) == 0 ? status : nil
    }

    private static func identity(_ status: stat) -> Identity {
        Identity(
            device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(truncatingIfNeeded: status.st_ino))
    }

    /// Lends the socket address of `path`; nil when the path does not fit into one.
    static func withAddress<Result>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
            guard !bytes.isEmpty, bytes.count < raw.count, !bytes.contains(0) else { return false }
            unsafe raw.copyBytes(from: bytes)
            return true
        }
        guard fits else { return nil }
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe body(address, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
