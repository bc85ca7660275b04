// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    extension UnixSocket {
        /// A socket, non-blocking; negative when it failed, with the reason in `errno`.
        package static func make() -> Int32 {
            ctunnel_unix_stream_socket()
        }

        /// Binds a socket to a path that fits. Its file has mode 0600 from its creation on, since Linux uses the mode
        /// of the descriptor.
        package static func bindPrivately(_ descriptor: Int32, to path: String) -> Int32 {
            guard fchmod(descriptor, 0o600) == 0 else { return -1 }
            return unsafe withAddress(path) { unsafe bind(descriptor, $0, $1) } ?? -1
        }

        /// The next connection, non-blocking; negative when there is none, with the reason in `errno`.
        package static func accept(_ descriptor: Int32) -> Int32 {
            let connection = libraryAccept(descriptor)
            guard connection >= 0 else { return connection }
            _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
            _ = fcntl(connection, F_SETFL, O_NONBLOCK)
            return connection
        }

        /// Sends as many bytes as fit. A closed peer is an error, not a signal.
        package static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
            SystemCall.retry { unsafe librarySend(descriptor, bytes.baseAddress, bytes.count) }
        }

        /// The user of the process at the other end when the connection was made; `nil` if the system does not report it.
        package static func peerUser(_ descriptor: Int32) -> UInt32? {
            // struct ucred, which the C library declares for GNU sources only: process, user, group.
            var credentials: (Int32, UInt32, UInt32) = (0, 0, 0)
            var length = socklen_t(12)
            guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0, length == 12
            else {
                return nil
            }
            return credentials.1
        }
    }

    private func libraryAccept(_ descriptor: Int32) -> Int32 { accept(descriptor, nil, nil) }

    private func librarySend(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe send(descriptor, start, count, Int32(MSG_NOSIGNAL))
    }
#endif
