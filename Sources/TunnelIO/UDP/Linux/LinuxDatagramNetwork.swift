// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    package import NetworkAddresses
    import TunnelSystem

    /// The network of the calling thread's network namespace.
    public struct LinuxDatagramNetwork: DatagramNetwork {
        private let offload: OffloadOptions

        /// The system's network.
        /// - Parameter offload: the work that the system does, if it supports it.
        public init(offload: OffloadOptions = .environment) {
            self.offload = offload
        }

        /// Binds one port for both families several times; see ``DatagramNetwork``.
        ///
        /// The call fails if another socket already has the port. While several sockets share the port, another process
        /// of the same user can join them with `SO_REUSEPORT`.
        public func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            try DatagramPairing.bind(binding, count: count) { (isIPv6, binding, sharing) throws(TunnelIOError) in
                try LinuxUDPSocket(isIPv6: isIPv6, binding, offload: offload, sharing: sharing)
            }
        }
    }

    extension LinuxDatagramNetwork: PortProbing {
        /// Sends an empty datagram; see ``PortProbing``.
        package func probe(_ endpoint: Endpoint, mark: UInt32) throws(TunnelIOError) -> @Sendable () -> Bool {
            let descriptor = OwnedDescriptor(ctunnel_udp_socket(endpoint.isIPv6 ? AF_INET6 : AF_INET))
            guard descriptor.number >= 0 else { throw TunnelIOError(.socket(operation: "socket"), errno: errno) }
            if mark != 0 {
                let code = SocketSetup.setOption(
                    descriptor.number, SOL_SOCKET, CTUNNEL_SO_MARK, Int32(bitPattern: mark))
                guard code == 0 else { throw TunnelIOError(.socket(operation: "setting the mark"), errno: code) }
            }
            let probe = try unsafe PortProbe(descriptor, endpoint) { unsafe UDPSocketAddress.write($0, to: $1) }
            return { probe.isRefused }
        }
    }

    /// The network of the platform.
    public typealias SystemDatagramNetwork = LinuxDatagramNetwork
#endif
