// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A netlink route socket in the network namespace of the thread that made it.
    struct NetlinkSocket: ~Copyable {
        let descriptor: OwnedDescriptor

        private static let failure = TunnelIOError.Code.socket(operation: "open a netlink socket")

        /// A socket that hears of interfaces when `followsLinks` is set, and else is for requests.
        init(followsLinks: Bool) throws(TunnelIOError) {
            let number = try SystemCall.check(Self.failure) {
                socket(CTUNNEL_AF_NETLINK, Int32(ctunnel_tun_raw_nonblocking_socket), CTUNNEL_NETLINK_ROUTE)
            }
            let owned = OwnedDescriptor(number)
            var address = ctunnel_sockaddr_nl(family: UInt16(CTUNNEL_AF_NETLINK), padding: 0, port: 0, groups: 0)
            try SystemCall.check(Self.failure) {
                unsafe withUnsafeBytes(of: &address) { bytes in
                    unsafe bind(
                        number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
                }
            }
            for group in followsLinks ? [CTUNNEL_RTNLGRP_LINK, CTUNNEL_RTNLGRP_NSID] : [] {
                try Self.setOption(CTUNNEL_NETLINK_ADD_MEMBERSHIP, to: group, of: number)
            }
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
            while true {
                var sender: UInt32 = 0
                var namespace: Int32 = -1
                let number = descriptor.number
                let count = SystemCall.retry {
                    unsafe ctunnel_tun_netlink_receive(number, buffer.baseAddress, buffer.count, &sender, &namespace)
                }
                guard count >= 0 else { return errno == ENOBUFS ? .overrun : .nothing }
                // Other processes may write to this socket too.
                guard sender == 0 else { continue }
                let datagram = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<min(count, buffer.count)])
                return unsafe .messages(NetlinkMessage.parse(datagram), namespace: namespace)
            }
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
