// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Notices changes of this host's addresses and routes, after which cached source addresses may be wrong.
    ///
    /// Source: rtnetlink(7).
    package final class RouteMonitor: Sendable {
        /// Polls readable when something changed.
        package let readiness: Int32

        private struct NetlinkAddress {
            var family: UInt16 = 16
            var padding: UInt16 = 0
            var port: UInt32 = 0
            // RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE
            var groups: UInt32 = 0x10 | 0x40 | 0x100 | 0x400
        }

        /// A monitor of the calling thread's network namespace.
        package static func make() throws(TunnelIOError) -> RouteMonitor? {
            let descriptor = socket(
                16, Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            guard descriptor >= 0 else {
                throw TunnelIOError(.eventLoop(operation: "opening a route netlink socket"), errno: errno)
            }
            var address = NetlinkAddress()
            let bound = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(descriptor, $0, socklen_t(MemoryLayout<NetlinkAddress>.size))
                }
            }
            guard bound == 0 else {
                let error = errno
                close(descriptor)
                throw TunnelIOError(.eventLoop(operation: "binding a route netlink socket"), errno: error)
            }
            return RouteMonitor(descriptor)
        }

        private init(_ descriptor: Int32) { readiness = descriptor }

        deinit { close(readiness) }

        /// Takes the changes that wait.
        /// - Returns: whether there were any; a lost one counts.
        package func drain() -> Bool {
            var changed = false
            unsafe withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 16) { buffer in
                while true {
                    let count = unsafe recv(readiness, buffer.baseAddress, buffer.count, 0)
                    if count > 0 || (count < 0 && errno == ENOBUFS) {
                        changed = true
                    } else if count < 0, errno == EINTR {
                        continue
                    } else {
                        return
                    }
                }
            }
            return changed
        }
    }
#endif
