// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A netlink route socket in the network namespace of the thread that made it.
    struct NetlinkSocket: ~Copyable {
        let descriptor: OwnedDescriptor

        private static let failure = TunnelIOError.Code.socket(operation: "open a netlink socket")

        /// A socket that hears what is sent to these groups. Without any, it is for requests.
        init(groups: [Int32]) throws(TunnelIOError) {
            try self.init(Self.open(), groups: groups)
        }

        /// A socket for requests in another namespace than the calling thread's.
        init(in namespace: consuming NetworkNamespace) throws(TunnelIOError) {
            let made = try namespace.run { (number: NetlinkSocket.open(), reason: errno) }
            guard made.number >= 0 else { throw TunnelIOError(Self.failure, errno: made.reason) }
            try self.init(made.number, groups: [])
        }

        private static func open() -> Int32 {
            SystemCall.retry {
                socket(CTUNNEL_AF_NETLINK, Int32(ctunnel_tun_raw_nonblocking_socket), CTUNNEL_NETLINK_ROUTE)
            }
        }

        private init(_ number: Int32, groups: [Int32]) throws(TunnelIOError) {
            guard number >= 0 else { throw TunnelIOError(Self.failure, errno: errno) }
            let owned = OwnedDescriptor(number)
            var address = ctunnel_sockaddr_nl(family: UInt16(CTUNNEL_AF_NETLINK), padding: 0, port: 0, groups: 0)
            try SystemCall.check(Self.failure) {
                unsafe withUnsafeBytes(of: &address) { bytes in
                    unsafe bind(
                        number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
                }
            }
            for group in groups { try Self.setOption(CTUNNEL_NETLINK_ADD_MEMBERSHIP, to: group, of: number) }
            descriptor = owned
        }

        /// Whether to hear also of the other namespaces that have an id in the socket's own.
        ///
        /// The socket does not keep those namespaces alive, as one made inside them would.
        /// - Throws: `errno` `EPERM` without CAP_NET_BROADCAST.
        func setHearsOtherNamespaces(_ isOn: Bool) throws(TunnelIOError) {
            try Self.setOption(CTUNNEL_NETLINK_LISTEN_ALL_NSID, to: isOn ? 1 : 0, of: descriptor.number)
        }

        private static func setOption(
            _ option: Int32, to value: Int32, of number: Int32
        ) throws(TunnelIOError) {
            var value = value
            try SystemCall.check(failure) {
                unsafe setsockopt(number, CTUNNEL_SOL_NETLINK, option, &value, socklen_t(MemoryLayout<Int32>.size))
            }
        }

        /// What the kernel said, and in which namespace.
        enum Received {
            /// Messages about the namespace with this id; -1 is the socket's own.
            case messages([NetlinkMessage], namespace: Int32)
            /// Messages were lost, so that what is known may be out of date.
            case overrun
            /// There is nothing more.
            case nothing
        }

        /// The next datagram, into `buffer`, which holds at least 32 KiB. Does not block.
        func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
            var namespace: Int32 = -1
            let count = unsafe receiveDatagram(into: buffer, &namespace)
            guard count >= 0 else { return errno == ENOBUFS ? .overrun : .nothing }
            let datagram = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
            return unsafe .messages(NetlinkMessage.parse(datagram), namespace: namespace)
        }

        /// - Returns: the number of bytes; negative when there are none, with the reason in `errno`.
        private func receiveDatagram(into buffer: UnsafeMutableRawBufferPointer, _ namespace: inout Int32) -> Int {
            while true {
                var sender: UInt32 = 0
                let number = descriptor.number
                let count = SystemCall.retry {
                    unsafe ctunnel_tun_netlink_receive(number, buffer.baseAddress, buffer.count, &sender, &namespace)
                }
                // Other processes may write to this socket too.
                guard count < 0 || sender == 0 else { continue }
                return min(count, buffer.count)
            }
        }

        /// Sends a request and collects the answer, which the kernel has begun before `send` returns.
        /// - Throws: `.socket` with the error number that the kernel answers.
        func ask(_ request: [UInt8], buffer: UnsafeMutableRawBufferPointer) throws(TunnelIOError) -> [NetlinkReply] {
            let code = TunnelIOError.Code.socket(operation: "ask the kernel about an interface")
            let number = descriptor.number
            try SystemCall.check(code) {
                unsafe request.withUnsafeBytes { unsafe send(number, $0.baseAddress, $0.count, 0) }
            }
            var replies: [NetlinkReply] = []
            var failure: Int32 = 0
            while true {
                var namespace: Int32 = -1
                let count = unsafe receiveDatagram(into: buffer, &namespace)
                if count < 0 {
                    guard errno == ENOBUFS else { break }
                    // Some of the answer is lost. The rest is read all the same, or the next question would get it.
                    failure = ENOBUFS
                    continue
                }
                let datagram = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
                for case .acknowledgement(let errno) in unsafe NetlinkMessage.parse(datagram) where errno != 0 {
                    failure = errno
                }
                unsafe replies += NetlinkMessage.replies(datagram)
            }
            guard failure == 0 else { throw TunnelIOError(code, errno: failure) }
            return replies
        }

        /// The id that `namespace` has in the socket's own; one is assigned where there is none.
        /// - Returns: nil where the kernel would not give one.
        func identifier(
            of namespace: borrowing NetworkNamespace, buffer: UnsafeMutableRawBufferPointer, assigns: Bool
        ) -> Int32? {
            let target = namespace.descriptor.number
            if let id = unsafe request(.init(descriptor: target, assigns: false), buffer: buffer) { return id }
            guard assigns else { return nil }
            _ = unsafe request(.init(descriptor: target, assigns: true), buffer: buffer)
            return unsafe request(.init(descriptor: target, assigns: false), buffer: buffer)
        }

        private struct NamespaceQuestion {
            var descriptor: Int32
            var assigns: Bool
        }

        /// Sends a request and reads the answer, which the kernel has queued before `send` returns.
        private func request(_ question: NamespaceQuestion, buffer: UnsafeMutableRawBufferPointer) -> Int32? {
            let request = NetlinkMessage.namespaceRequest(descriptor: question.descriptor, assigns: question.assigns)
            let number = descriptor.number
            let sent = unsafe request.withUnsafeBytes { bytes in
                SystemCall.retry { unsafe send(number, bytes.baseAddress, bytes.count, 0) }
            }
            guard sent == request.count else { return nil }
            while case .messages(let messages, _) = unsafe receive(into: buffer) {
                for case .namespace(let id) in messages where id >= 0 { return id }
            }
            return nil
        }
    }
#endif
