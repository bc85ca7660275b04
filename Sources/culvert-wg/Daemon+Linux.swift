// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import TunnelIO

    extension Daemon {
        /// Makes the interface, with several queues if the layout of lanes needs them and the system permits it.
        static func makeTun(_ options: DaemonOptions) throws(TunnelIOError) -> SystemTun {
            try SystemTun.make(name: options.interfaceName, mtu: 1420, prefersQueues: options.layout.needsQueues)
        }
    }
#endif
