// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import TunnelIO

    extension Daemon {
        /// Makes the interface, with several queues if the layout of lanes needs them.
        static func makeTun(_ options: DaemonOptions) throws(TunnelIOError) -> SystemTun {
            try SystemTun(name: options.interfaceName, mtu: 1420, isMultiQueue: options.layout.needsQueues)
        }
    }
#endif
