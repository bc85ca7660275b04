// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The TUN device of this platform.
    public typealias SystemTun = DarwinTun

    extension DarwinTun {
        /// The interface that the system made for this tunnel, by its name, or, where the system does not tell it, the only
        /// one of this process. Not verified on a device.
        /// - Throws: `.deviceNotFound` unless it is this tunnel's for certain.
        @Sendable package static func openSystemInterface(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            if let name { return try DarwinTun(ownedBySystem: .name(name)) }
            return try DarwinTun(ownedBySystem: .only)
        }
    }
#endif
