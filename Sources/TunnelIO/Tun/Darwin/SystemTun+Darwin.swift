// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// The TUN device of this platform.
    public typealias SystemTun = DarwinTun

    extension DarwinTun {
        /// Opens the interface that the system created for this tunnel, by the name that the system reports. Not verified on
        /// a device.
        /// - Throws: `.deviceNotFound` if the system reports no name, or no socket of this process has that interface.
        @Sendable package static func openSystemInterface(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            try DarwinTun(borrowing: UtunSearch.find(ofTunnel: name, system: DarwinUtunSystem()))
        }
    }
#endif
