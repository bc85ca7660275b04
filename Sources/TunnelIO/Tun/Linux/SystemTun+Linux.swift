// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    /// The TUN device of this platform.
    public typealias SystemTun = LinuxTun

    extension LinuxTun {
        /// Always throws: Linux creates no interface for a tunnel, so the tunnel creates one.
        /// - Throws: `.unsupported`.
        @Sendable package static func openSystemInterface(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            throw TunnelIOError(.unsupported("an interface of the system's making"))
        }
    }
#endif
