// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Stream sockets in the file system. They are closed on exec, and a closed peer is an error, not a signal.
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
}

private func libraryConnect(_ descriptor: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(descriptor, address, length)
}
