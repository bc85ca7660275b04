// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension LinuxNetwork {
    /// The part of a route that decides about packets.
    struct RouteState: Hashable {
        var key: ForeignRoute.Key
        var type: UInt8
        var wayOut: UInt32

        init(_ route: Route) {
            (key, type, wayOut) = (ForeignRoute.Key(of: route), route.kind.number, route.interface)
        }

        /// A route that the kernel listed; `nil` without a key.
        init?(_ route: ForeignRoute) {
            guard let key = route.key else { return nil }
            (self.key, type, wayOut) = (key, route.type, route.wayOut)
        }
    }

    /// The kernel's lists. Each is read when it is first needed.
    struct Present {
        let netlink: RouteSocket
        private var knownAddresses: Set<RouteSocket.Assignment>?
        private var knownLinks: [UInt32: Int]?
        private var knownRules: [Bool: Set<PolicyRule>] = [:]
        private var knownRoutes: [Bool: Set<RouteState>] = [:]

        init(netlink: RouteSocket) { self.netlink = netlink }

        var addresses: Set<RouteSocket.Assignment> {
            mutating get throws(LinuxNetworkError) {
                if let knownAddresses { return knownAddresses }
                let found = Set(try netlink.addresses())
                knownAddresses = found
                return found
            }
        }

        /// The MTU of each interface that is up, by interface index.
        var upLinks: [UInt32: Int] {
            mutating get throws(LinuxNetworkError) {
                if let knownLinks { return knownLinks }
                var found: [UInt32: Int] = [:]
                for link in try netlink.links() where link.isUp { found[link.index] = link.mtu }
                knownLinks = found
                return found
            }
        }

        mutating func rules(isIPv6: Bool) throws(LinuxNetworkError) -> Set<PolicyRule> {
            if let known = knownRules[isIPv6] { return known }
            let found = Set(try netlink.rules(isIPv6: isIPv6).lazy.filter(\.isWhole).map(\.rule))
            knownRules[isIPv6] = found
            return found
        }

        mutating func routes(isIPv6: Bool) throws(LinuxNetworkError) -> Set<RouteState> {
            if let known = knownRoutes[isIPv6] { return known }
            let found = Set(try netlink.routes(isIPv6: isIPv6).lazy.compactMap { RouteState($0) })
            knownRoutes[isIPv6] = found
            return found
        }
    }
}
