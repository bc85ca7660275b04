// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    /// A UDP socket of one family, bound to the wildcard address, that moves up to 64 datagrams per system call.
    ///
    /// The endpoint of a received datagram contains the local address and interface at which it arrived. A datagram is
    /// sent from the source address and interface of its endpoint, if they are set (RFC 3542 section 6; ip(7)). The
    /// socket is never connected.
    public final class LinuxUDPSocket: DatagramSocket {
        /// Whether this is an IPv6 socket (and only that).
        public let isIPv6: Bool
        /// The bound port in host order.
        public let port: UInt16
        /// A descriptor that polls readable while there is something to receive.
        public let readiness: Int32

        /// The state of sending.
        struct Sending {
            /// -1 once closed.
            var descriptor: Int32
            var sender: UDPSender
        }

        /// The descriptor for each direction, held while it is used; -1 once closed.
        let receiving: Mutex<Int32>
        let sending: Mutex<Sending>
        let incoming = UDPMessageArray()
        /// Whether the system delivers joined datagrams, which the socket splits.
        let isCutting: Atomic<Bool>

        let truncated = Atomic<Int>(0)
        let overflowed = Atomic<Int>(0)
        let staleSources = Atomic<Int>(0)
        let takenApart = Atomic<Int>(0)
        /// The system's overflow counter as last seen; used under `receiving`.
        let lastOverflow = Atomic<UInt32>(0)

        /// The requested size of each queue of the socket, in bytes.
        static let bufferSize: Int32 = 7 << 20

        /// Binds a socket of one family.
        ///
        /// - Parameters:
        ///   - isIPv6: the family; an IPv6 socket carries only IPv6.
        ///   - port: the port in host order, or zero for any.
        ///   - mark: the mark for policy routing, or zero for none.
        ///   - offload: the work that the system does, if it supports it.
        /// - Throws: `.bind` with the error number of the step that failed.
        public convenience init(
            isIPv6: Bool, port: UInt16, mark: UInt32 = 0, offload: OffloadOptions = .environment
        ) throws(TunnelIOError) {
            try self.init(
                isIPv6: isIPv6, DatagramBinding(port: port, mark: mark), offload: offload, sharing: .alone)
        }

        /// Binds a socket of one family to a port that it may share.
        init(
            isIPv6: Bool, _ binding: DatagramBinding, offload: OffloadOptions, sharing: DatagramPairing.Sharing
        ) throws(TunnelIOError) {
            let port = binding.port
            let descriptor = ctunnel_udp_socket(isIPv6 ? AF_INET6 : AF_INET)
            guard descriptor >= 0 else { throw TunnelIOError(.bind(port: port, operation: "socket"), errno: errno) }
            do throws(TunnelIOError) {
                try Self.configure(descriptor, isIPv6: isIPv6, binding)
                if sharing == .joining { try Self.sharePort(descriptor, port) }
                self.port = try unsafe SocketSetup.bindSocket(descriptor, isIPv6: isIPv6, to: binding) {
                    unsafe UDPSocketAddress.write($0, to: $1)
                }
                // After `bind`, so that the socket does not join another program's shared port. If it fails, the port has
                // one socket, since no other can join.
                if sharing == .first { try? Self.sharePort(descriptor, port) }
            } catch {
                closeDescriptor(descriptor)
                throw error
            }
            // The system splits joined datagrams.
            let joins = offload.udpSegmentation && Self.hasOption(descriptor, CTUNNEL_UDP_SEGMENT)
            isCutting = Atomic(
                offload.udpCoalescing
                    && SocketSetup.setOption(descriptor, Int32(IPPROTO_UDP), CTUNNEL_UDP_GRO, 1) == 0)
            self.isIPv6 = isIPv6
            readiness = descriptor
            receiving = Mutex(descriptor)
            sending = Mutex(Sending(descriptor: descriptor, sender: UDPSender(joins: joins)))
        }

        deinit {
            close()
        }

        /// The datagrams that the socket dropped or sent in another way.
        public var statistics: LinuxUDPSocketStatistics {
            LinuxUDPSocketStatistics(
                truncated: truncated.load(ordering: .relaxed), overflowed: overflowed.load(ordering: .relaxed),
                staleSources: staleSources.load(ordering: .relaxed),
                takenApart: takenApart.load(ordering: .relaxed))
        }

        /// The received datagrams that the socket or the system dropped.
        public var receiveDrops: DatagramReceiveDrops {
            DatagramReceiveDrops(
                oversize: truncated.load(ordering: .relaxed), overflowed: overflowed.load(ordering: .relaxed))
        }

        /// Sets the mark for policy routing of later datagrams; zero clears it.
        public func setMark(_ mark: UInt32) throws(TunnelIOError) {
            try sending.withLock { (sending) throws(TunnelIOError) in
                guard sending.descriptor >= 0 else { throw TunnelIOError(.closed) }
                let code = SocketSetup.setOption(
                    sending.descriptor, SOL_SOCKET, CTUNNEL_SO_MARK, Int32(bitPattern: mark))
                guard code == 0 else { throw TunnelIOError(.socket(operation: "setting the mark"), errno: code) }
            }
        }

        /// Closes the socket. Safe to repeat.
        public func close() {
            // Takes both locks, so that no direction uses the number after another file got it.
            receiving.withLock { receiving in
                sending.withLock { sending in
                    guard sending.descriptor >= 0 else { return }
                    closeDescriptor(sending.descriptor)
                    sending.descriptor = -1
                    receiving = -1
                }
            }
        }

        // MARK: - Setting up

        private static func configure(
            _ descriptor: Int32, isIPv6: Bool, _ binding: DatagramBinding
        ) throws(TunnelIOError) {
            let (port, mark) = (binding.port, binding.mark)
            if isIPv6 {
                try require(descriptor, Int32(IPPROTO_IPV6), CTUNNEL_IPV6_V6ONLY, 1, port, "IPV6_V6ONLY")
                try require(descriptor, Int32(IPPROTO_IPV6), CTUNNEL_IPV6_RECVPKTINFO, 1, port, "IPV6_RECVPKTINFO")
            } else {
                try require(descriptor, Int32(IPPROTO_IP), CTUNNEL_IP_PKTINFO, 1, port, "IP_PKTINFO")
            }
            if mark != 0 {
                try require(descriptor, SOL_SOCKET, CTUNNEL_SO_MARK, Int32(bitPattern: mark), port, "SO_MARK")
            }
            // Failures are ignored: without privileges the queues are smaller, and old kernels do not count overflows.
            SocketQueue.setSize(of: descriptor, bufferSize)
            _ = SocketSetup.setOption(descriptor, SOL_SOCKET, CTUNNEL_SO_RXQ_OVFL, 1)
        }

        private static func sharePort(_ descriptor: Int32, _ port: UInt16) throws(TunnelIOError) {
            try require(descriptor, SOL_SOCKET, SO_REUSEPORT, 1, port, "SO_REUSEPORT")
        }

        private static func require(
            _ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32, _ port: UInt16, _ name: String
        ) throws(TunnelIOError) {
            let code = SocketSetup.setOption(descriptor, level, option, value)
            guard code == 0 else { throw TunnelIOError(.bind(port: port, operation: "setting \(name)"), errno: code) }
        }

        /// Whether the system supports this option of UDP.
        private static func hasOption(_ descriptor: Int32, _ option: Int32) -> Bool {
            var value: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            return unsafe getsockopt(descriptor, Int32(IPPROTO_UDP), option, &value, &size) == 0
        }
    }

    /// Closes a descriptor. It is outside the class, where `close` would be the class's own method.
    private func closeDescriptor(_ descriptor: Int32) {
        _ = close(descriptor)
    }

    /// The datagrams that a socket dropped or sent in another way since it was bound.
    public struct LinuxUDPSocketStatistics: Hashable, Sendable {
        /// Datagrams that did not fit the batch and were dropped.
        public var truncated: Int
        /// Datagrams that the system dropped because the receive queue was full, as far as it reported them.
        public var overflowed: Int
        /// Datagrams that were sent without their source address and interface, which no longer existed.
        public var staleSources: Int
        /// Messages of joined datagrams that the system refused to split. Their datagrams were sent one by one.
        public var takenApart: Int
    }
#endif
