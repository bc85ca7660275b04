// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The queues of a socket in the system.
    enum SocketQueue {
        /// Sets the sizes of the receive and send queues. The kernel doubles each value, since it counts its own
        /// overhead.
        static func setSize(of descriptor: Int32, _ bytes: Int32) {
            // The second pair exceeds the system's limit, if that is permitted.
            for option in [SO_RCVBUF, SO_SNDBUF, CTUNNEL_SO_RCVBUFFORCE, CTUNNEL_SO_SNDBUFFORCE] {
                _ = SocketSetup.setOption(descriptor, SOL_SOCKET, option, bytes)
            }
        }
    }
#endif
