// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import TunnelIO

    extension Daemon {
        /// Makes the interface, which has only one queue.
        static func makeTun(_ options: DaemonOptions) throws(TunnelIOError) -> SystemTun {
            try SystemTun(name: options.interfaceName, mtu: 1420)
        }
    }
#endif
