// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    package import NetworkAddresses
    import Synchronization
    import TunnelSystem

    /// A UDP socket of one address family that uses public system calls only, one for each datagram.
    ///
    /// Written from the manual pages and not yet verified on a device. This platform has no marks for policy routing.
    public final class DarwinUDPSocket: DatagramSocket {
        /// Whether this is an IPv6 socket (and only that).
        public let isIPv6: Bool
        /// The bound port in host order.
        public let port: UInt16
        /// A descriptor that polls readable while there is something to receive.
        public let readiness: Int32

        /// The descriptor for each direction, held while it is used; -1 once closed.
        let receiving: Mutex<Int32>
        let sending: Mutex<Int32>
        let incoming = UDPMessage()
        let outgoing = UDPMessage()

        /// Datagrams that did not fit the batch and were dropped.
        let truncated = Atomic<Int>(0)

        /// The requested size of each queue of the socket, in bytes.
        private static let bufferSize: Int32 = 2 << 20

        /// Binds a socket of one family.
        ///
        /// - Parameters:
        ///   - isIPv6: the family; an IPv6 socket takes IPv6 alone.
        ///   - port: the port in host order, or zero for any.
        /// - Throws: `.bind` with the error number of the step that failed.
        public convenience init(isIPv6: Bool, port: UInt16) throws(TunnelIOError) {
            try self.init(isIPv6: isIPv6, DatagramBinding(port: port))
        }

        /// Binds a socket of one family.
        init(isIPv6: Bool, _ binding: DatagramBinding) throws(TunnelIOError) {
            let port = binding.port
            let descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, IPPROTO_UDP)
            guard descriptor >= 0 else { throw TunnelIOError(.bind(port: port, operation: "socket"), errno: errno) }
            do throws(TunnelIOError) {
                try Self.configure(descriptor, isIPv6: isIPv6, port: port)
                self.port = try unsafe SocketSetup.bindSocket(descriptor, isIPv6: isIPv6, to: binding) {
                    unsafe DarwinSocketAddress.write($0, to: $1)
                }
            } catch {
                closeDescriptor(descriptor)
                throw error
            }
            self.isIPv6 = isIPv6
            readiness = descriptor
            receiving = Mutex(descriptor)
            sending = Mutex(descriptor)
        }

        deinit {
            close()
        }

        /// Datagrams that were too large for the batch. The system does not report its own drops.
        public var receiveDrops: DatagramReceiveDrops {
            DatagramReceiveDrops(oversize: truncated.load(ordering: .relaxed))
        }

        /// Sets the mark for policy routing of later datagrams; zero clears it.
        public func setMark(_ mark: UInt32) throws(TunnelIOError) {
            guard mark == 0 else { throw TunnelIOError(.unsupported("marking datagrams for policy routing")) }
        }

        /// Closes the socket. Safe to repeat.
        public func close() {
            // Takes both locks, so that no direction uses the number after another file got it.
            receiving.withLock { receiving in
                sending.withLock { sending in
                    guard sending >= 0 else { return }
                    closeDescriptor(sending)
                    sending = -1
                    receiving = -1
                }
            }
        }

        fileprivate static func configure(_ descriptor: Int32, isIPv6: Bool, port: UInt16) throws(TunnelIOError) {
            guard fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 else {
                throw TunnelIOError(.bind(port: port, operation: "fcntl"), errno: errno)
            }
            let required: [(Int32, Int32)] =
                isIPv6
                ? [(IPPROTO_IPV6, IPV6_V6ONLY), (IPPROTO_IPV6, DarwinPacketInfo.ipv6ReceivePacketInfo)]
                : [(IPPROTO_IP, IP_RECVPKTINFO)]
            for (level, option) in required {
                let code = SocketSetup.setOption(descriptor, level, option, 1)
                guard code == 0 else {
                    throw TunnelIOError(.bind(port: port, operation: "setting option \(option)"), errno: code)
                }
            }
            // The socket works without these options, so a failure is ignored.
            _ = SocketSetup.setOption(descriptor, SOL_SOCKET, SO_RCVBUF, bufferSize)
            _ = SocketSetup.setOption(descriptor, SOL_SOCKET, SO_SNDBUF, bufferSize)
            _ = SocketSetup.setOption(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1)
        }
    }

    /// Closes a descriptor. It is outside the class, where `close` would be the class's own method.
    private func closeDescriptor(_ descriptor: Int32) {
        _ = close(descriptor)
    }

    /// The network of the host.
    public struct DarwinDatagramNetwork: DatagramNetwork {
        /// The system's network.
        public init() {}

        /// Binds the port once for both families: datagrams are not spread over several sockets here.
        public func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            guard binding.mark == 0 else { throw TunnelIOError(.unsupported("marking datagrams for policy routing")) }
            return [
                try DatagramPairing.bind(binding) { (isIPv6, binding) throws(TunnelIOError) in
                    try DarwinUDPSocket(isIPv6: isIPv6, binding)
                }
            ]
        }
    }

    extension DarwinDatagramNetwork: PortProbing {
        /// Sends an empty datagram; see ``PortProbing``.
        package func probe(_ endpoint: Endpoint, mark: UInt32) throws(TunnelIOError) -> @Sendable () -> Bool {
            guard mark == 0 else { throw TunnelIOError(.unsupported("marking datagrams for policy routing")) }
            let descriptor = OwnedDescriptor(socket(endpoint.isIPv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, IPPROTO_UDP))
            guard descriptor.number >= 0 else { throw TunnelIOError(.socket(operation: "socket"), errno: errno) }
            try DarwinUDPSocket.configure(descriptor.number, isIPv6: endpoint.isIPv6, port: 0)
            let probe = try unsafe PortProbe(descriptor, endpoint) { unsafe DarwinSocketAddress.write($0, to: $1) }
            return { probe.isRefused }
        }
    }

    /// The network of the platform.
    public typealias SystemDatagramNetwork = DarwinDatagramNetwork
#endif
