// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The name servers to use while the tunnel is up, and the names that they resolve.
public struct DNSSettings: Hashable, Sendable {
    /// The servers, the preferred one first.
    public var servers: [IPAddress]
    /// The domains to complete names of one label with.
    public var searchDomains: [String]
    /// Split DNS: the servers get queries only for names in these domains. If empty, they get all queries.
    public var matchDomains: [String]
    /// Whether ``matchDomains`` complete names as well.
    public var searchesMatchDomains: Bool

    /// DNS settings.
    public init(
        servers: [IPAddress], searchDomains: [String] = [], matchDomains: [String] = [],
        searchesMatchDomains: Bool = false
    ) {
        self.servers = servers
        self.searchDomains = searchDomains
        self.matchDomains = matchDomains
        self.searchesMatchDomains = searchesMatchDomains
    }

    /// Whether the servers get queries for `name`. Case and a final dot are ignored.
    public func answers(_ name: String) -> Bool {
        guard !servers.isEmpty else { return false }
        guard !matchDomains.isEmpty else { return true }
        let name = Self.canonical(name)
        return matchDomains.contains { domain in
            let domain = Self.canonical(domain)
            return domain.isEmpty || name == domain || name.hasSuffix("." + domain)
        }
    }

    private static func canonical(_ name: String) -> String {
        let lower = name.lowercased()
        return lower.hasSuffix(".") ? String(lower.dropLast()) : lower
    }
}

extension DNSSettings: Codable {
    private enum CodingKeys: String, CodingKey {
        case servers, searchDomains, matchDomains, searchesMatchDomains
    }

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            servers: try container.decodeIfPresent([IPAddress].self, forKey: .servers) ?? [],
            searchDomains: try container.decodeIfPresent([String].self, forKey: .searchDomains) ?? [],
            matchDomains: try container.decodeIfPresent([String].self, forKey: .matchDomains) ?? [],
            searchesMatchDomains: try container.decodeIfPresent(Bool.self, forKey: .searchesMatchDomains) ?? false)
    }
}
