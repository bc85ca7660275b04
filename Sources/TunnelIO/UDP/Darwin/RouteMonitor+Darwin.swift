// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// Notices changes of this host's addresses and routes. On Darwin the host tells the device of path changes.
    package final class RouteMonitor: Sendable {
        /// Never readable.
        package let readiness: Int32 = -1

        /// There is none on Darwin.
        package static func make() throws(TunnelIOError) -> RouteMonitor? { nil }

        /// Nothing ever changed.
        package func drain() -> Bool { false }
    }
#endif
