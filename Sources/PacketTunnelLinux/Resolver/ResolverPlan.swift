// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
package import PacketTunnel

/// The program that manages the host's name servers.
package enum ResolverManager: String, Hashable, Sendable, Codable {
    /// systemd-resolved, through resolvectl(1).
    case resolved
    /// openresolv, through its resolvconf(8).
    case openresolv
    /// Debian's resolvconf(8).
    case debianResolvconf

    /// Its usual name.
    package var title: String {
        switch self {
        case .resolved: "systemd-resolved"
        case .openresolv: "openresolv"
        case .debianResolvconf: "Debian's resolvconf"
        }
    }
}

/// The name servers of a tunnel.
package struct ResolverPlan: Hashable, Sendable, Codable {
    /// The tunnel's interface.
    package var interface: InterfaceReference
    /// The manager.
    package var manager: ResolverManager
    /// The settings.
    package var settings: DNSSettings

    package init(interface: InterfaceReference, manager: ResolverManager, settings: DNSSettings) {
        self.interface = interface
        self.manager = manager
        self.settings = settings
    }

    /// The arguments of consecutive runs of resolvectl(1).
    var resolvectlRuns: [[String]] {
        let name = interface.name
        let isSplit = !settings.matchDomains.isEmpty
        var domains = settings.searchDomains.map(Self.plain)
        // A domain with "~" routes queries and does not complete names. "~." routes queries for every name.
        if isSplit {
            domains += settings.matchDomains.map(Self.plain).filter { !domains.contains($0) }
                .map { settings.searchesMatchDomains ? $0 : "~\($0.isEmpty ? "." : $0)" }
        } else if !settings.servers.isEmpty {
            domains.append("~.")
        }
        return [
            ["dns", name] + (settings.servers.isEmpty ? [""] : settings.servers.map(\.description)),
            ["domain", name] + (domains.isEmpty ? [""] : domains),
            ["default-route", name, isSplit || settings.servers.isEmpty ? "false" : "true"],
        ]
    }

    /// The text for resolvconf, in the format of resolv.conf(5).
    var resolvConf: String {
        var text = settings.servers.map { "nameserver \($0)\n" }.joined()
        var domains = settings.searchDomains
        if settings.searchesMatchDomains { domains += settings.matchDomains.filter { !domains.contains($0) } }
        if !domains.isEmpty { text += "search \(domains.map(Self.plain).joined(separator: " "))\n" }
        return text
    }

    /// Returns a domain without its final dot.
    private static func plain(_ domain: String) -> String {
        domain.hasSuffix(".") ? String(domain.dropLast()) : domain
    }
}

/// The information that removing a tunnel's name servers needs.
package struct ResolverRecord: Hashable, Sendable, Codable {
    package var manager: ResolverManager
    package var interface: InterfaceReference
    /// The tunnel's label in resolvconf.
    package var label: String
    /// The contents of /etc/resolv.conf in Base64, if resolvconf had no records to create it from; `nil` if the file
    /// must not be restored.
    package var before: String?
    /// The tunnel's servers, to recognise a file that still contains them; `nil` in older journals.
    package var servers: [String]?
    /// The file before the tunnel; `nil` in older journals.
    package var original: ResolverFile?
    /// The last file with which another program replaced the tunnel's. It is restored after the tunnel.
    package var replaced: ResolverFile?
    /// Whether another file was mounted over resolv.conf before the tunnel, as in containers; `nil` in older journals.
    package var isMounted: Bool?

    /// The bytes to restore after the tunnel, if resolvconf has nothing to create the file from; otherwise `nil`.
    var bytesAfter: [UInt8]? {
        replaced?.bytes ?? before.flatMap { Data(base64Encoded: $0) }.map { [UInt8]($0) }
    }
}
