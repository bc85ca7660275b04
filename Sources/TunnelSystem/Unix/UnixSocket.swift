// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    package import Glibc
#elseif canImport(Musl)
    package import Musl
#elseif canImport(Darwin)
    package import Darwin
#endif

/// Stream sockets in the file system. They are closed on exec, and a peer that is gone is an error, not a signal.
package enum UnixSocket {
    /// Connects to the socket at `path`.
    /// - Parameter isBlocking: whether reads and writes wait, and so does connecting while the server is busy.
    /// - Throws: `ENAMETOOLONG` for a path that no socket can have.
    package static func connect(to path: String, isBlocking: Bool = false) throws(SystemError) -> OwnedDescriptor {
        let socket = OwnedDescriptor(try SystemCall.check("\(path): socket") { make() })
        let number = socket.number
        if isBlocking { _ = fcntl(number, F_SETFL, 0) }
        let result = unsafe withAddress(path) { address, length in
            SystemCall.retry { unsafe libraryConnect(number, address, length) }
        }
        let reason = result == nil ? ENAMETOOLONG : errno
        guard result == 0 else { throw SystemError("\(path): connect", errno: reason) }
        return socket
    }

    /// Lends the socket address of `path`; nil when the path does not fit into one.
    package static func withAddress<Result>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        guard !path.isEmpty, !path.utf8.contains(0) else { return nil }
        return unsafe withAddress(name: Array(path.utf8), body)
    }

    /// Lends the socket address of a name, which is a path or, with a zero in front, of Linux's abstract ones; nil when it
    /// does not fit.
    package static func withAddress<Result>(
        name: [UInt8], _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { raw in
            guard name.count < raw.count else { return false }
            unsafe raw.copyBytes(from: name)
            return true
        }
        guard fits else { return nil }
        // An abstract name has its length, and no zero at its end.
        let room = MemoryLayout.size(ofValue: address.sun_path) - name.count
        let length = MemoryLayout<sockaddr_un>.size - (name.first == 0 ? room : 0)
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe body(address, socklen_t(length))
            }
        }
    }
}

private func libraryConnect(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(descriptor, address, length)
}
