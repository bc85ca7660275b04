// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization

/// A listening stream socket in the file system, and its file.
package final class UnixListener: Sendable {
    /// The reason that a socket cannot be served.
    package enum Failure: Error, Hashable, Sendable {
        /// The path has more bytes than a socket's address holds, none, or a zero byte.
        case invalidPath
        /// Another process answers there.
        case alreadyRunning
        /// There is a file that is not a socket. Remove it yourself.
        case notASocket
        /// Other users may change the folder, so they could put their own socket there.
        case unsafeFolder(String)
        /// The system refused a step.
        case system(path: String, operation: String, errno: Int32)
    }

    /// The listening descriptor.
    package let descriptor: SharedDescriptor
    /// The socket's file; `nil` if the descriptor was handed in without one.
    package let path: String?
    /// The identity of the file when it was bound; a later file there belongs to another program.
    package let identity: FileIdentity?
    private let lock: SharedDescriptor?

    /// Binds and listens at `path`, for the owner only. A missing folder is created; a socket without a server is replaced.
    /// - Parameters:
    ///   - isGuarded: whether only root and the owner may change the folder, and a lock next to the file, which ends with its
    ///     process, shows that it is served.
    ///   - isForAll: whether other users may connect; the server must then check who they are.
    package init(path: String, isGuarded: Bool = false, isForAll: Bool = false) throws(Failure) {
        guard unsafe UnixSocket.withAddress(path, { _, _ in true }) != nil else { throw .invalidPath }
        if let slash = path.lastIndex(of: "/") {
            let folder = slash == path.startIndex ? "/" : String(path[..<slash])
            if folder != "/", unsafe mkdir(folder, isGuarded && !isForAll ? 0o700 : 0o755) != 0, errno != EEXIST {
                throw .system(path: folder, operation: "mkdir", errno: errno)
            }
            if isGuarded { try Self.check(folder) }
        }
        lock = isGuarded ? try Self.lock(path) : nil
        if let present = FileStatus(of: path, followsLinks: false) {
            guard present.kind == .socket else { throw .notASocket }
            guard Self.isAbandoned(path) else { throw .alreadyRunning }
            if unsafe unlink(path) != 0, errno != ENOENT {
                throw .system(path: path, operation: "unlink", errno: errno)
            }
        }
        let socket = OwnedDescriptor(UnixSocket.make())
        guard socket.number >= 0 else { throw .system(path: path, operation: "socket", errno: errno) }
        let number = socket.number
        // The mode of a socket's file is set at its creation, so that other users cannot connect before `chmod` permits
        // it.
        guard UnixSocket.bindPrivately(number, to: path) == 0 else {
            throw .system(path: path, operation: "bind", errno: errno)
        }
        guard listen(number, 128) == 0, unsafe !isForAll || chmod(path, 0o666) == 0 else {
            let reason = errno
            unsafe _ = unlink(path)
            throw .system(path: path, operation: "listen", errno: reason)
        }
        identity = FileIdentity(of: path)
        descriptor = SharedDescriptor(socket)
        self.path = path
    }

    /// Takes over a listening descriptor whose file, if any, is at `path`.
    package init(descriptor: Int32, path: String?) throws(Failure) {
        guard SystemCall.setNonBlocking(descriptor) else {
            throw .system(path: path ?? "descriptor \(descriptor)", operation: "fcntl", errno: errno)
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        self.descriptor = SharedDescriptor(OwnedDescriptor(descriptor))
        self.path = path
        identity = path.flatMap { FileIdentity(of: $0) }
        lock = nil
    }

    deinit { close() }

    /// Closes the socket and removes its file, unless another file has replaced it. Safe to repeat.
    package func close() {
        guard !descriptor.isClosed else { return }
        if let path, let identity, FileIdentity(of: path) == identity { unsafe _ = unlink(path) }
        descriptor.close()
        lock?.close()
    }

    /// The result of an attempt to accept.
    package enum Accepted: ~Copyable {
        /// A connection, non-blocking.
        case connection(OwnedDescriptor)
        /// No connection is waiting.
        case none
        /// The system has no more descriptors or memory; the connection still waits.
        case exhausted
    }

    /// Takes the next connection.
    package func accept() -> Accepted {
        guard descriptor.acquire() else { return .none }
        defer { descriptor.release() }
        while true {
            let connection = UnixSocket.accept(descriptor.number)
            if connection >= 0 { return .connection(OwnedDescriptor(connection)) }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: return .exhausted
            default: return .none
            }
        }
    }

    // MARK: - Steps

    private static func check(_ folder: String) throws(Failure) {
        guard let status = FileStatus(of: folder) else {
            throw .system(path: folder, operation: "stat", errno: errno)
        }
        let isShared = status.mode & 0o022 != 0 && status.mode & CTUNNEL_S_ISVTX == 0
        guard status.owner == 0 || status.owner == geteuid(), !isShared else { throw .unsafeFolder(folder) }
    }

    /// Takes the lock of the server of `path`. Its file stays after the server has ended, since removing it would race.
    private static func lock(_ path: String) throws(Failure) -> SharedDescriptor {
        let number = SystemCall.open("\(path).lock", O_RDWR | O_CREAT | O_NOFOLLOW)
        guard number >= 0 else { throw .system(path: "\(path).lock", operation: "open", errno: errno) }
        let descriptor = SharedDescriptor(OwnedDescriptor(number))
        guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
            if errno == EWOULDBLOCK { throw .alreadyRunning }
            throw .system(path: "\(path).lock", operation: "flock", errno: errno)
        }
        return descriptor
    }

    /// Removes a socket without a server.
    package static func removeAbandoned(_ path: String) {
        guard FileStatus(of: path, followsLinks: false)?.kind == .socket, isAbandoned(path) else { return }
        unsafe _ = unlink(path)
    }

    /// Whether no server listens at `path`. A full queue, for example, means that one does.
    private static func isAbandoned(_ path: String) -> Bool {
        do throws(SystemError) {
            _ = try UnixSocket.connect(to: path)
            return false
        } catch {
            return error.errno == ECONNREFUSED || error.errno == ENOENT
        }
    }
}
