// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension LinuxNetwork {
    /// What the kernel has of what some steps are about, each list asked for once.
    struct Present {
        private var addresses: Set<RouteSocket.Assignment> = []
        /// The MTU of each interface that is up.
        private var upLinks: [UInt32: Int] = [:]
        private var rules: Set<PolicyRule> = []
        private var routes: Set<RouteState> = []

        private struct RouteState: Hashable {
            var key: ForeignRoute.Key
            var type: UInt8
            var wayOut: UInt32
        }

        init(_ netlink: RouteSocket, _ steps: [NetworkStep]) throws(LinuxNetworkError) {
            var families: (rules: Set<Bool>, routes: Set<Bool>) = ([], [])
            var (asksAddresses, asksLinks) = (false, false)
            for step in steps {
                switch step {
                case .address: asksAddresses = true
                case .link: asksLinks = true
                case .rule(let rule): families.rules.insert(rule.isIPv6)
                case .route(let route): families.routes.insert(route.destination.isIPv6)
                case .interface, .setting, .firewall, .resolver: break
                }
            }
            if asksAddresses { addresses = Set(try netlink.addresses()) }
            if asksLinks {
                for link in try netlink.links() where link.isUp { upLinks[link.index] = link.mtu }
            }
            for isIPv6 in families.rules {
                rules.formUnion(try netlink.rules(isIPv6: isIPv6).filter(\.isWhole).map(\.rule))
            }
            for isIPv6 in families.routes {
                for route in try netlink.routes(isIPv6: isIPv6) {
                    guard let key = route.key else { continue }
                    routes.insert(RouteState(key: key, type: route.type, wayOut: route.wayOut))
                }
            }
        }

        /// Whether a step that the kernel's lists tell of is in force.
        func has(_ step: NetworkStep) -> Bool {
            switch step {
            case .address(let address, let interface):
                addresses.contains(RouteSocket.Assignment(interface: interface.index, address: address))
            case .link(let interface, let mtu): upLinks[interface.index] == mtu
            case .rule(let rule): rules.contains(rule)
            case .route(let route):
                routes.contains(
                    RouteState(
                        key: ForeignRoute.Key(of: route), type: route.kind.number, wayOut: route.interface))
            case .interface, .setting, .firewall, .resolver: true
            }
        }
    }
}
