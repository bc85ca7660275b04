// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    func systemStreamSocket() -> Int32 {
        socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    }

    /// Binds a socket's file with mode 0600. Linux takes the mode from the descriptor's own.
    func systemBindPrivately(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
        guard fchmod(descriptor, 0o600) == 0 else { return -1 }
        return unsafe bind(descriptor, address, length)
    }

    func systemAccept(_ descriptor: Int32) -> Int32 {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { return connection }
        _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
        _ = fcntl(connection, F_SETFL, O_NONBLOCK)
        return connection
    }

    func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }

    func systemRead(_ descriptor: Int32, _ bytes: UnsafeMutableRawBufferPointer) -> Int {
        unsafe read(descriptor, bytes.baseAddress, bytes.count)
    }

    /// A peer that is gone is an error, not a signal.
    func systemSend(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        unsafe send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    }
#endif
