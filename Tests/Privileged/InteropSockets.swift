// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import WireGuardCore

    /// An address and a port in the form of the socket calls.
    struct SocketAddress: Hashable, CustomStringConvertible {
        /// A `sockaddr_in` or `sockaddr_in6`.
        fileprivate(set) var bytes: [UInt8]

        var family: Int32 { unsafe bytes.withUnsafeBytes { unsafe Int32($0.loadUnaligned(as: sa_family_t.self)) } }

        /// An address in text and a port.
        init(_ text: String, _ port: Int) throws {
            var four = sockaddr_in()
            var six = sockaddr_in6()
            if unsafe inet_pton(AF_INET, text, &four.sin_addr) == 1 {
                four.sin_family = sa_family_t(AF_INET)
                four.sin_port = UInt16(port).bigEndian
                bytes = unsafe withUnsafeBytes(of: &four) { unsafe Array($0) }
            } else if unsafe inet_pton(AF_INET6, text, &six.sin6_addr) == 1 {
                six.sin6_family = sa_family_t(AF_INET6)
                six.sin6_port = UInt16(port).bigEndian
                bytes = unsafe withUnsafeBytes(of: &six) { unsafe Array($0) }
            } else {
                throw CommandFailure(description: "'\(text)' is no address")
            }
        }

        fileprivate init(bytes: [UInt8]) { self.bytes = bytes }

        var port: Int { Int(bytes[2]) << 8 | Int(bytes[3]) }

        var description: String { "\(bytes)" }

        fileprivate func lend<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
            unsafe bytes.withUnsafeBytes { raw in
                guard let base = unsafe raw.assumingMemoryBound(to: sockaddr.self).baseAddress else {
                    preconditionFailure("an address is never empty")
                }
                return unsafe body(base, socklen_t(raw.count))
            }
        }
    }

    /// A non-blocking socket in a namespace, with which tests send and receive.
    final class TestSocket {
        let descriptor: Int32

        private init(_ descriptor: Int32) {
            self.descriptor = descriptor
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }

        deinit { close(descriptor) }

        private static func make(
            _ type: __socket_type, in namespace: Namespace, _ address: SocketAddress
        ) throws -> TestSocket {
            let descriptor = try namespace.perform { socket(address.family, Int32(type.rawValue), 0) }
            let made = TestSocket(descriptor)
            var on: Int32 = 1
            unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
            return made
        }

        /// A UDP socket bound to an address; port zero leaves the port to the system.
        static func datagrams(in namespace: Namespace, at address: String, port: Int = 0) throws -> TestSocket {
            let local = try SocketAddress(address, port)
            let made = try make(SOCK_DGRAM, in: namespace, local)
            guard unsafe local.lend({ unsafe bind(made.descriptor, $0, $1) }) == 0 else {
                throw CommandFailure(description: "cannot bind UDP \(address) \(port): errno \(errno)")
            }
            return made
        }

        /// A UDP socket for one remote endpoint: an ICMP error about its datagrams ends the next call.
        static func datagrams(
            in namespace: Namespace, at address: String, to remote: String, port: Int
        ) throws -> TestSocket {
            let made = try datagrams(in: namespace, at: address)
            let remote = try SocketAddress(remote, port)
            guard unsafe remote.lend({ unsafe connect(made.descriptor, $0, $1) }) == 0 else {
                throw CommandFailure(description: "cannot connect UDP: errno \(errno)")
            }
            return made
        }

        /// A listening TCP socket.
        static func listener(in namespace: Namespace, at address: String, port: Int) throws -> TestSocket {
            let local = try SocketAddress(address, port)
            let made = try make(SOCK_STREAM, in: namespace, local)
            guard unsafe local.lend({ unsafe bind(made.descriptor, $0, $1) }) == 0, listen(made.descriptor, 4) == 0
            else {
                throw CommandFailure(description: "cannot listen at \(address) \(port): errno \(errno)")
            }
            return made
        }

        /// Begins a TCP connection.
        static func connecting(in namespace: Namespace, to address: String, port: Int) throws -> TestSocket {
            let remote = try SocketAddress(address, port)
            let made = try make(SOCK_STREAM, in: namespace, remote)
            guard unsafe remote.lend({ unsafe connect(made.descriptor, $0, $1) }) == 0 || errno == EINPROGRESS else {
                throw CommandFailure(description: "cannot connect to \(address) \(port): errno \(errno)")
            }
            return made
        }

        /// Waits for a connection.
        func accept() throws -> TestSocket {
            guard Poll.isReadable(descriptor, before: ContinuousClock.now + Privileged.patience) else {
                throw CommandFailure(description: "no peer connects")
            }
            let connection = Glibc.accept(descriptor, nil, nil)
            guard connection >= 0 else { throw CommandFailure(description: "accept: errno \(errno)") }
            return TestSocket(connection)
        }

        /// The port that the socket is bound to.
        var port: Int {
            var bytes = [UInt8](repeating: 0, count: 28)
            var length = socklen_t(bytes.count)
            unsafe bytes.withUnsafeMutableBytes { raw in
                guard let base = unsafe raw.assumingMemoryBound(to: sockaddr.self).baseAddress else { return }
                unsafe _ = getsockname(descriptor, base, &length)
            }
            return SocketAddress(bytes: bytes).port
        }

        /// Sends one datagram. Returns false when the system refuses it.
        @discardableResult
        func send(_ datagram: [UInt8], to address: SocketAddress) -> Bool {
            unsafe address.lend { unsafe sendto(descriptor, datagram, datagram.count, 0, $0, $1) } == datagram.count
        }

        /// The next datagram and its sender; `nil` if none comes in time.
        func receive(within patience: Duration = Privileged.patience) -> (bytes: [UInt8], source: SocketAddress)? {
            guard Poll.isReadable(descriptor, before: ContinuousClock.now + patience) else { return nil }
            var bytes = [UInt8](repeating: 0, count: 65_536)
            var source = [UInt8](repeating: 0, count: 28)
            var length = socklen_t(source.count)
            let count = unsafe source.withUnsafeMutableBytes { raw -> Int in
                guard let base = unsafe raw.assumingMemoryBound(to: sockaddr.self).baseAddress else { return -1 }
                return unsafe recvfrom(descriptor, &bytes, bytes.count, 0, base, &length)
            }
            guard count >= 0 else { return nil }
            return (Array(bytes[..<count]), SocketAddress(bytes: Array(source[..<Int(length)])))
        }

        /// Writes some bytes to a connection. Returns `false` if the connection has ended.
        func write(_ bytes: [UInt8]) -> Bool { writeSome(bytes[...]) == bytes.count }

        /// Returns the available bytes of a connection.
        /// - Throws: An error at its end.
        func read() throws -> [UInt8] {
            var bytes: [UInt8] = []
            try readSome(into: &bytes)
            return bytes
        }

        fileprivate func writeSome(_ bytes: ArraySlice<UInt8>) -> Int {
            max(
                0,
                unsafe bytes.withUnsafeBytes {
                    unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                })
        }

        fileprivate func readSome(into bytes: inout [UInt8]) throws {
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            guard count != 0 else { throw CommandFailure(description: "the connection ended early") }
            if count > 0 {
                bytes += chunk[..<count]
            } else if errno != EAGAIN {
                throw CommandFailure(description: "read: errno \(errno)")
            }
        }
    }

    /// The traffic of tests through tunnels.
    enum InteropTraffic {
        /// Sends `byteCount` random bytes in both directions at the same time over one TCP connection.
        /// - Throws: `CommandFailure` unless each end gets exactly the bytes of the other.
        static func exchange(
            _ pair: TunnelPair, _ family: IPFamily, byteCount: Int = 1 << 20, within patience: Duration = .seconds(60)
        ) throws {
            let address = pair.right.inner(family)
            let listener = try TestSocket.listener(in: pair.right.namespace, at: address, port: 5000)
            let left = try TestSocket.connecting(in: pair.left.namespace, to: address, port: 5000)
            let right = try listener.accept()
            let data = [random(byteCount, seed: 1), random(byteCount, seed: 2)]
            let sockets = [left, right]
            var sent = [0, 0]
            var received: [[UInt8]] = [[], []]
            let end = ContinuousClock.now + patience
            while received.contains(where: { $0.count < byteCount }) {
                var items = (0..<2).map { side in
                    pollfd(
                        fd: sockets[side].descriptor,
                        events: Int16(POLLIN) | (sent[side] < byteCount ? Int16(POLLOUT) : 0), revents: 0)
                }
                guard ContinuousClock.now < end, unsafe poll(&items, 2, 5000) > 0 else {
                    throw CommandFailure(
                        description: "TCP stalled: sent \(sent), received \(received.map(\.count)) of \(byteCount)")
                }
                for side in 0..<2 {
                    if items[side].revents & Int16(POLLOUT) != 0 {
                        sent[side] += sockets[side].writeSome(data[side][sent[side]...].prefix(65_536))
                    }
                    if items[side].revents & Int16(POLLIN | POLLERR | POLLHUP) != 0 {
                        try sockets[side].readSome(into: &received[side])
                    }
                }
            }
            guard received[0] == data[1], received[1] == data[0] else {
                throw CommandFailure(description: "TCP delivered other bytes than were sent")
            }
        }

        /// Sends one UDP datagram of each of these lengths from left to right and back.
        /// - Throws: `CommandFailure` unless each arrives unchanged and in order.
        static func echo(_ pair: TunnelPair, _ family: IPFamily, lengths: some Sequence<Int>) throws {
            let left = try TestSocket.datagrams(in: pair.left.namespace, at: pair.left.inner(family))
            let right = try TestSocket.datagrams(in: pair.right.namespace, at: pair.right.inner(family))
            let address = try SocketAddress(pair.right.inner(family), right.port)
            let content = random(65_536, seed: 3)
            for length in lengths {
                let datagram = Array(content[..<length])
                guard left.send(datagram, to: address), let there = right.receive(), there.bytes == datagram else {
                    throw CommandFailure(description: "a datagram of \(length) bytes did not arrive as it was")
                }
                guard right.send(datagram, to: there.source), let back = left.receive(), back.bytes == datagram else {
                    throw CommandFailure(description: "a datagram of \(length) bytes did not come back as it was")
                }
            }
        }

        /// Returns bytes that depend only on the seed.
        static func random(_ count: Int, seed: UInt64) -> [UInt8] {
            var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count)
            while bytes.count < count {
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                unsafe withUnsafeBytes(of: state) { unsafe bytes.append(contentsOf: $0) }
            }
            return Array(bytes.prefix(count))
        }
    }
#endif
