// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A raw client of a management socket.
    final class ManagementClient {
        private let descriptor: Int32
        private var received: [UInt8] = []

        /// The path of an interface's management socket.
        static func path(_ interface: String) -> String { "/var/run/wireguard/\(interface).sock" }

        /// Whether a process answers at the socket.
        static func isAnswered(_ path: String) -> Bool { (try? ManagementClient(path)) != nil }

        /// Connects to the socket at `path`.
        init(_ path: String) throws {
            descriptor = Self.makeSocket()
            guard unsafe Self.withAddress(path, { unsafe connect(descriptor, $0, $1) }) == 0 else {
                // The descriptor is closed with this object.
                let error = errno
                throw CommandFailure(description: "cannot connect to \(path): errno \(error)")
            }
        }

        deinit { close(descriptor) }

        /// Creates a listening socket at `path`. After the descriptor is closed, its file remains without a listener.
        static func listen(at path: String) throws -> Int32 {
            let descriptor = makeSocket()
            guard unsafe withAddress(path, { unsafe bind(descriptor, $0, $1) }) == 0, Glibc.listen(descriptor, 4) == 0
            else {
                let error = errno
                close(descriptor)
                throw CommandFailure(description: "cannot listen at \(path): errno \(error)")
            }
            return descriptor
        }

        private static func makeSocket() -> Int32 {
            socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        }

        private static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32
        {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8.prefix(107)) }
            return unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
        }

        /// Writes text, in one piece or in the portions that the other side accepts.
        func write(_ text: String) throws {
            let bytes = Array(text.utf8)
            var written = 0
            while written < bytes.count {
                let count = unsafe bytes.withUnsafeBytes {
                    unsafe send(
                        descriptor, $0.baseAddress?.advanced(by: written), bytes.count - written, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { throw CommandFailure(description: "cannot write: errno \(errno)") }
                written += count
            }
        }

        /// Ends writing.
        func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

        /// Reads one reply, up to and including its blank line.
        func readReply() throws -> String {
            let end = ContinuousClock.now + Privileged.patience
            var searched = 0
            while true {
                while let newline = received[searched...].firstIndex(of: 10), newline + 1 < received.count {
                    searched = newline + 1
                    guard received[searched] == 10 else { continue }
                    defer { received.removeSubrange(...searched) }
                    return String(decoding: received[...searched], as: UTF8.self)
                }
                guard try readMore(before: end) else {
                    throw CommandFailure(
                        description: "end of the connection after '\(String(decoding: received, as: UTF8.self))'")
                }
            }
        }

        /// Whether the other side closes the connection without sending anything more.
        func isAtEnd() throws -> Bool {
            try !readMore(before: ContinuousClock.now + Privileged.patience) && received.isEmpty
        }

        private func readMore(before end: ContinuousClock.Instant) throws -> Bool {
            guard Poll.isReadable(descriptor, before: end) else {
                throw CommandFailure(
                    description: "no reply, but '\(String(decoding: received, as: UTF8.self))'")
            }
            var bytes = [UInt8](repeating: 0, count: 65_536)
            let count = unsafe read(descriptor, &bytes, bytes.count)
            guard count > 0 else { return false }
            received += bytes[..<count]
            return true
        }

        /// Sends a request and reads the reply.
        func ask(_ text: String) throws -> String {
            try write(text)
            return try readReply()
        }
    }
#endif
