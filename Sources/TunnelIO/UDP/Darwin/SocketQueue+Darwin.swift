// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// The queues of a socket in the system.
    enum SocketQueue {
        /// Sets the sizes of the receive and send queues, as far as the system permits.
        static func setSize(of descriptor: Int32, _ bytes: Int32) {
            for option in [SO_RCVBUF, SO_SNDBUF] {
                var value = bytes
                _ = unsafe setsockopt(
                    descriptor, SOL_SOCKET, option, &value, socklen_t(MemoryLayout<Int32>.size))
            }
        }
    }
#endif
