// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    /// The network of the calling thread's network namespace.
    public struct LinuxDatagramNetwork: DatagramNetwork {
        /// The system's network.
        public init() {}

        /// Binds one port for both families; see ``DatagramNetwork``.
        public func bind(port: UInt16, mark: UInt32) throws(TunnelIOError) -> DatagramSockets {
            try DatagramPairing.bind(port: port) { (isIPv6, port) throws(TunnelIOError) in
                try LinuxUDPSocket(isIPv6: isIPv6, port: port, mark: mark)
            }
        }
    }

    /// The network of the platform.
    public typealias SystemDatagramNetwork = LinuxDatagramNetwork
#endif
