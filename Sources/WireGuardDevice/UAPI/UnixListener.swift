// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import WireGuardCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A listening stream socket in the file system, for its owner only.
final class UnixListener: Sendable {
    /// The listening descriptor.
    let descriptor: Int32
    /// The socket's file; nil when the descriptor was handed in without one.
    let path: String?
    /// What the file was when it was bound; whatever else is there later is not ours.
    let identity: FileIdentity?
    private let isClosed = Atomic(false)

    /// Binds and listens at `path`, whose folder is made when it is missing.
    ///
    /// A file that nobody answers at is replaced.
    /// - Throws: `.alreadyRunning` when somebody does answer, `.managementSocket` when a step fails.
    init(path: String) throws(WireGuardDeviceError) {
        func failure(_ operation: String) -> WireGuardDeviceError {
            WireGuardDeviceError(.managementSocket(path: path, operation: operation), errno: errno)
        }
        guard unsafe UnixListener.withAddress(path, { _, _ in true }) != nil else {
            throw WireGuardDeviceError(
                .managementSocket(path: path, operation: "the path is too long"), errno: ENAMETOOLONG)
        }
        if let slash = path.lastIndex(of: "/") {
            let folder = String(path[..<slash])
            if !folder.isEmpty, unsafe mkdir(folder, 0o755) != 0, errno != EEXIST { throw failure("mkdir") }
        }
        if let present = FileIdentity(of: path) {
            guard present.isSocket else {
                throw WireGuardDeviceError(
                    .managementSocket(path: path, operation: "there is a file that is no socket; remove it"),
                    errno: EEXIST)
            }
            guard UnixListener.isAbandoned(path) else {
                throw WireGuardDeviceError(.alreadyRunning(path: path), errno: EADDRINUSE)
            }
            if unsafe unlink(path) != 0, errno != ENOENT { throw failure("unlink") }
        }

        let socket = systemStreamSocket()
        guard socket >= 0 else { throw failure("socket") }
        // The mode of a socket's file is that of its creation: there is no moment in which others may connect.
        let bound = unsafe UnixListener.withAddress(path) { address, length in
            unsafe systemBindPrivately(socket, address, length)
        }
        let bindError = errno
        guard bound == 0 else {
            _ = systemClose(socket)
            errno = bindError
            throw failure("bind")
        }
        guard listen(socket, 128) == 0 else {
            let error = errno
            _ = systemClose(socket)
            unsafe _ = unlink(path)
            errno = error
            throw failure("listen")
        }
        descriptor = socket
        self.path = path
        identity = FileIdentity(of: path)
    }

    /// Takes over a listening descriptor whose file, if any, is at `path`.
    init(descriptor: Int32, path: String?) throws(WireGuardDeviceError) {
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            throw WireGuardDeviceError(
                .managementSocket(path: path ?? "descriptor \(descriptor)", operation: "fcntl"), errno: errno)
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        self.descriptor = descriptor
        self.path = path
        identity = path.flatMap { FileIdentity(of: $0) }
    }

    deinit { close() }

    /// Closes the descriptor and removes the file, unless another has taken its place. Safe to repeat.
    func close() {
        guard !isClosed.exchange(true, ordering: .relaxed) else { return }
        if let path, let identity, FileIdentity(of: path) == identity { unsafe _ = unlink(path) }
        _ = systemClose(descriptor)
    }

    /// What became of an attempt to accept.
    enum Accepted {
        /// A connection, non-blocking.
        case connection(Int32)
        /// Nobody waits.
        case none
        /// The system has no more descriptors or memory; the connection still waits.
        case exhausted
    }

    /// Takes the next connection.
    func accept() -> Accepted {
        while true {
            let connection = systemAccept(descriptor)
            if connection >= 0 { return .connection(connection) }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: return .exhausted
            default: return .none
            }
        }
    }

    /// Whether nobody listens at `path` any more. A full queue, for one, is a sign of life.
    private static func isAbandoned(_ path: String) -> Bool {
        let socket = systemStreamSocket()
        guard socket >= 0 else { return false }
        defer { _ = systemClose(socket) }
        let result = unsafe withAddress(path) { address, length in unsafe connect(socket, address, length) }
        return result != 0 && (errno == ECONNREFUSED || errno == ENOENT)
    }

    /// Lends the socket address of `path`; nil when the path does not fit into one.
    private static func withAddress<R>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
            guard bytes.count < raw.count, !bytes.contains(0) else { return false }
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
