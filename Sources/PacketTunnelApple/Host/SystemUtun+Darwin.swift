// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(NetworkExtension) && canImport(Darwin)
    package import TunnelIO

    /// The utun interface that the system made for this tunnel. Not verified on a device.
    package enum SystemUtun {
        /// The interface by its name, or, where the system does not tell it, the only one of this process.
        /// - Throws: `.deviceNotFound` unless it is this tunnel's for certain.
        @Sendable package static func open(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            if let name { return try DarwinTun(ownedBySystem: .name(name)) }
            return try DarwinTun(ownedBySystem: .only)
        }
    }
#endif
