// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import TunnelSystem

    /// Reports changes of this host's addresses and routes, after which cached source addresses may be wrong.
    ///
    /// Source: rtnetlink(7).
    package final class RouteMonitor: Sendable {
        /// Polls readable when something changed.
        package let readiness: Int32

        private let socket: NetlinkSocket

        /// A monitor of the calling thread's network namespace.
        package static func make() throws(TunnelIOError) -> RouteMonitor? {
            RouteMonitor(
                try .make(groups: [
                    CTUNNEL_RTNLGRP_IPV4_IFADDR, CTUNNEL_RTNLGRP_IPV4_ROUTE, CTUNNEL_RTNLGRP_IPV6_IFADDR,
                    CTUNNEL_RTNLGRP_IPV6_ROUTE,
                ]))
        }

        private init(_ socket: consuming NetlinkSocket) {
            readiness = socket.descriptor.number
            self.socket = socket
        }

        /// Reads all waiting messages.
        /// - Returns: whether there were any, or any were lost.
        package func drain() -> Bool {
            var changed = false
            while true {
                if case .nothing = socket.receive() { return changed }
                changed = true
            }
        }
    }
#endif
