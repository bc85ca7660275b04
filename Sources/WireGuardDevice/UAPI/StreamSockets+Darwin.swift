// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import Synchronization

    private let maskOwner = Mutex(())

    /// Binds a socket's file with mode 0600. Darwin takes the mode from the process's mask, which is everybody's.
    func systemBindPrivately(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
        maskOwner.withLock { _ in
            let old = umask(0o077)
            defer { umask(old) }
            return unsafe bind(descriptor, address, length)
        }
    }

    func systemStreamSocket() -> Int32 {
        let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
        guard descriptor >= 0 else { return descriptor }
        prepare(descriptor)
        return descriptor
    }

    func systemAccept(_ descriptor: Int32) -> Int32 {
        let connection = unsafe accept(descriptor, nil, nil)
        guard connection >= 0 else { return connection }
        prepare(connection)
        return connection
    }

    func systemClose(_ descriptor: Int32) -> Int32 { close(descriptor) }

    func systemRead(_ descriptor: Int32, _ bytes: UnsafeMutableRawBufferPointer) -> Int {
        unsafe read(descriptor, bytes.baseAddress, bytes.count)
    }

    func systemSend(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        unsafe send(descriptor, bytes.baseAddress, bytes.count, 0)
    }

    private func prepare(_ descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        var on: Int32 = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
    }
#endif
