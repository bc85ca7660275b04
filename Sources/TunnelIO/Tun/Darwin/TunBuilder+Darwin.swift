// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    extension TunBuilder {
        /// Makes the interface with its addresses, as root, on macOS. Options of Linux only are refused.
        ///
        /// An address brings no route to its network, since a utun interface is point-to-point: routes are the caller's
        /// (`route add -net …`), as are the network settings of a tunnel extension, which bring addresses of their own.
        ///
        /// Not verified on a Mac: what is asked of the system is compiled against Apple's headers, and tested up to the calls.
        /// - Throws: `.invalidOptions` with everything that is wrong; else as ``DarwinTun/init(name:mtu:)`` and
        ///   ``DarwinTun/add(_:)``.
        public func build() throws(TunnelIOError) -> DarwinTun {
            DarwinTun(try build(on: DarwinUtunSystem()))
        }
    }
#endif
