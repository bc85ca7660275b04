// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The TUN device of this platform.
    public typealias SystemTun = DarwinTun

    extension DarwinTun {
        /// Opens the interface that the system created for this tunnel: the one with this name or, if the system does
        /// not report the name, the only utun interface of this process. Not verified on a device.
        /// - Throws: `.deviceNotFound` unless the tunnel's interface is identified with certainty.
        @Sendable package static func openSystemInterface(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            if let name { return try DarwinTun(ownedBySystem: .name(name)) }
            return try DarwinTun(ownedBySystem: .only)
        }
    }
#endif
