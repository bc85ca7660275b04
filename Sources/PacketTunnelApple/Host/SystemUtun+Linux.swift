// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(NetworkExtension) && os(Linux)
    package import TunnelIO

    /// There is no utun here: a test opens something else.
    package enum SystemUtun {
        /// - Throws: `.unsupported`.
        @Sendable package static func open(_ name: String?) throws(TunnelIOError) -> any TunDevice {
            throw TunnelIOError(.unsupported("utun"))
        }
    }
#endif
