// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    /// A monitor that reports nothing: on Darwin, the host reports path changes to the device.
    package final class RouteMonitor: Sendable {
        /// Never readable.
        package let readiness: Int32 = -1

        /// Returns `nil`: Darwin needs no monitor.
        package static func make() throws(TunnelIOError) -> RouteMonitor? { nil }

        /// Always false.
        package func drain() -> Bool { false }
    }
#endif
