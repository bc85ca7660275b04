// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import Synchronization

    extension UnixSocket {
        private static let maskOwner = Mutex(())

        /// A socket, non-blocking; negative when it failed, with the reason in `errno`.
        package static func make() -> Int32 {
            let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
            guard descriptor >= 0 else { return descriptor }
            prepare(descriptor)
            return descriptor
        }

        /// Binds a socket to a path that fits, with a file of mode 0600. Darwin uses the process's mask, which all threads
        /// share.
        package static func bindPrivately(_ descriptor: Int32, to path: String) -> Int32 {
            maskOwner.withLock { _ in
                let old = umask(0o177)
                defer { umask(old) }
                return unsafe withAddress(path) { unsafe bind(descriptor, $0, $1) } ?? -1
            }
        }

        /// The next connection, non-blocking; negative when there is none, with the reason in `errno`.
        package static func accept(_ descriptor: Int32) -> Int32 {
            let connection = libraryAccept(descriptor)
            guard connection >= 0 else { return connection }
            prepare(connection)
            return connection
        }

        /// Sends as many bytes as fit. A closed peer is an error, not a signal, because of an option of the socket.
        package static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
            SystemCall.retry { unsafe librarySend(descriptor, bytes.baseAddress, bytes.count) }
        }

        /// The user of the process at the other end when the connection was made; `nil` if the system does not report it.
        package static func peerUser(_ descriptor: Int32) -> UInt32? {
            var (user, group): (uid_t, gid_t) = (0, 0)
            guard unsafe getpeereid(descriptor, &user, &group) == 0 else { return nil }
            return user
        }

        private static func prepare(_ descriptor: Int32) {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
            var on: Int32 = 1
            unsafe setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    private func libraryAccept(_ descriptor: Int32) -> Int32 { accept(descriptor, nil, nil) }

    private func librarySend(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe send(descriptor, start, count, 0)
    }
#endif
