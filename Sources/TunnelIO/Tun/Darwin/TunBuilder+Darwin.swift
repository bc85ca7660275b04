// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    extension TunBuilder {
        /// Creates the interface with its addresses, as root, on macOS. Options of Linux only are refused.
        ///
        /// An address does not add a route to its network, since a utun interface is point-to-point. The caller adds routes
        /// (`route add -net …`); a tunnel extension gets addresses and routes from its network settings.
        ///
        /// Not verified on a Mac: the requests are compiled against Apple's headers, and tested up to the system calls.
        /// - Throws: `.invalidOptions` with every problem; otherwise as ``DarwinTun/init(name:mtu:)`` and
        ///   ``DarwinTun/add(_:)``.
        public func build() throws(TunnelIOError) -> DarwinTun {
            DarwinTun(try build(on: DarwinUtunSystem()))
        }
    }
#endif
