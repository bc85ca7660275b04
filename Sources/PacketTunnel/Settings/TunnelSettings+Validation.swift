// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

extension TunnelSettings {
    /// Returns every problem of these settings, in the order of their fields; empty if they can be applied.
    public func validate() -> [SettingsProblem] {
        var report = Report()
        checkRemoteAddress(&report)
        checkAddresses(&report)
        checkRoutes(&report)
        checkAllowedNetworks(&report)
        checkMTU(&report)
        if let dns { check(dns, &report) }
        if let proxy { check(proxy, &report) }
        return report.problems
    }

    private struct Report {
        var problems: [SettingsProblem] = []

        mutating func add(_ field: String, _ value: some CustomStringConvertible, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value.description, problem: problem, fix: fix))
        }

        /// Reports every element that repeats an earlier one.
        mutating func addRepeats<Element: Hashable & CustomStringConvertible>(_ field: String, of elements: [Element]) {
            var seen: [Element: Int] = [:]
            for (index, element) in elements.enumerated() {
                if let first = seen[element] {
                    add("\(field)[\(index)]", element, "is the same as \(field)[\(first)]", fix: "remove one")
                } else {
                    seen[element] = index
                }
            }
        }
    }

    // MARK: - Addresses and routes

    private func checkRemoteAddress(_ report: inout Report) {
        if remoteAddress.isEmpty {
            report.add("remoteAddress", remoteAddress, "is empty", fix: "name the server as the user knows it")
        } else if remoteAddress.utf8.count > 255 || remoteAddress.unicodeScalars.contains(where: { $0.value < 0x20 }) {
            report.add(
                "remoteAddress", remoteAddress.prefix(40), "is longer than 255 bytes or has control characters",
                fix: "use the server's name or address")
        }
    }

    private func checkAddresses(_ report: inout Report) {
        if addresses.isEmpty {
            report.add("addresses", "", "has no address", fix: "give the interface at least one address")
        }
        for (index, prefix) in addresses.enumerated() {
            let field = "addresses[\(index)]"
            let address = prefix.address
            if address.isUnspecified || address.isLoopback || address.isMulticast || address.isBroadcast {
                report.add(
                    field, prefix, "is not a valid address for an interface",
                    fix: "use the address that the server assigned")
            } else if prefix.peer != nil {
                report.add(
                    field, prefix, "has another end", fix: "write the interface's own address, and a route to the other"
                )
            } else if prefix.prefixLength == 0 {
                report.add(
                    field, prefix, "has no prefix bits", fix: "use /\(address.bitWidth), and routes for networks")
            }
        }
        report.addRepeats("addresses", of: addresses)
    }

    private func checkRoutes(_ report: inout Report) {
        for (name, routes) in [("includedRoutes", includedRoutes), ("excludedRoutes", excludedRoutes)] {
            for (index, route) in routes.enumerated() {
                let field = "\(name)[\(index)]"
                if route.address.isMulticast, route.length >= (route.isIPv6 ? 8 : 4) {
                    report.add(field, route, "is a multicast network", fix: "remove it: groups are not routed here")
                } else if route.address.isLoopback {
                    report.add(field, route, "is this machine itself", fix: "remove it")
                }
            }
            report.addRepeats(name, of: routes)
        }
        for (index, route) in excludedRoutes.enumerated() where includedRoutes.contains(route) {
            report.add("excludedRoutes[\(index)]", route, "is included as well", fix: "remove one of the two")
        }
        if !leakPolicy.allowsExcludedRoutes, !excludedRoutes.isEmpty {
            report.add(
                "excludedRoutes", excludedRoutes.map(\.description).joined(separator: ", "),
                "contradicts the leak policy 'everything', which lets nothing out",
                fix: "remove the routes, make them allowed networks, or use 'enforcedRoutes'")
        }
    }

    private func checkAllowedNetworks(_ report: inout Report) {
        for (index, network) in allowedNetworks.enumerated() {
            let field = "allowedNetworks[\(index)]"
            guard network.length > 1 else {
                // A half of the address space is too large as well.
                report.add(
                    field, network, "lets everything pass outside the tunnel",
                    fix: "name the networks that are meant, such as \(network.isIPv6 ? "fd00::/8" : "192.168.0.0/16")")
                continue
            }
            if network.address.isLoopback {
                report.add(field, network, "is this machine itself", fix: "remove it: that passes in any case")
            }
            // Under 'everything' routes do not matter.
            if !leakPolicy.routesEverything, let route = includedRoutes.first(where: { network.contains($0) }) {
                report.add(
                    field, network, "holds \(route), which is reached through the tunnel",
                    fix: "allow smaller networks, or take \(route) out of the tunnel")
            }
        }
        report.addRepeats("allowedNetworks", of: allowedNetworks)
    }

    private func checkMTU(_ report: inout Report) {
        if let mtu {
            if mtu > 65_535 || mtu < leastMTU {
                report.add(
                    "mtu", mtu, "is not within \(leastMTU) to 65535",
                    fix: leastMTU == 1280 ? "IPv6 needs at least 1280; 1420 is usual" : "1420 is usual")
            }
        } else if !(0...512).contains(overhead) {
            report.add("overhead", overhead, "is not within 0 to 512", fix: "WireGuard's is 80 over IPv6")
        }
    }

    // MARK: - DNS and proxies

    private func check(_ dns: DNSSettings, _ report: inout Report) {
        for (index, server) in dns.servers.enumerated()
        where server.isUnspecified || server.isMulticast || server.isBroadcast {
            report.add(
                "dns.servers[\(index)]", server, "is not a valid address for a server", fix: "use the server's address")
        }
        report.addRepeats("dns.servers", of: dns.servers)
        for (name, domains) in [("searchDomains", dns.searchDomains), ("matchDomains", dns.matchDomains)] {
            for (index, domain) in domains.enumerated() where !Self.isDomain(domain) {
                report.add(
                    "dns.\(name)[\(index)]", domain, "is not a domain name",
                    fix:
                        "labels of 1 to 63 letters, digits, '-' or '_', with dots between; a server needs an IP address"
                )
            }
            report.addRepeats("dns.\(name)", of: domains)
        }
        if dns.servers.isEmpty, dns.searchDomains.isEmpty || !dns.matchDomains.isEmpty {
            report.add("dns.servers", "", "has no server", fix: "add one, or leave the DNS settings out")
        }
    }

    private func check(_ proxy: ProxySettings, _ report: inout Report) {
        for (name, server) in [("http", proxy.http), ("https", proxy.https)] {
            guard let server else { continue }
            if !Self.isHost(server.host) {
                report.add(
                    "proxy.\(name).host", server.host, "is neither a name nor an address",
                    fix: "use the proxy's name or address, without scheme or port")
            }
            if server.port == 0 {
                report.add("proxy.\(name).port", server.port, "is not within 1 to 65535", fix: "use the proxy's port")
            }
        }
        if let url = proxy.autoConfigurationURL, !Self.isWebURL(url) {
            report.add(
                "proxy.autoConfigurationURL", url, "is not an http or https URL", fix: "write https://host/path.pac")
        }
        for (index, exception) in proxy.exceptions.enumerated() {
            let host = exception.hasPrefix("*.") ? String(exception.dropFirst(2)) : exception
            if !Self.isHost(host), (try? IPPrefix(host)) == nil {
                report.add(
                    "proxy.exceptions[\(index)]", exception, "is neither a name, an address nor a network",
                    fix: "write host.example, *.example or 10.0.0.0/8")
            }
        }
        if proxy.http == nil, proxy.https == nil, proxy.autoConfigurationURL == nil {
            report.add("proxy", "", "names no proxy", fix: "add one, or leave the proxy settings out")
        }
    }

    private static func isDomain(_ name: String) -> Bool {
        let bytes = ContiguousArray(name.utf8)
        return (try? HostNameSyntax.check(bytes.span, allowsInternational: true)) != nil
    }

    private static func isHost(_ host: String) -> Bool { (try? IPAddress(host)) != nil || isDomain(host) }

    private static func isWebURL(_ url: String) -> Bool {
        let lower = url.lowercased()
        guard let scheme = ["https://", "http://"].first(where: { lower.hasPrefix($0) }) else { return false }
        let rest = lower.dropFirst(scheme.count)
        return rest.first.map { $0 != "/" && $0 != ":" } == true && url.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    }
}
