// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The proxies that programs use while the tunnel is up, if they use the system's proxy settings.
public struct ProxySettings: Hashable, Sendable {
    /// The address of a proxy.
    public struct Server: Codable, Hashable, Sendable {
        /// A name or an address.
        public var host: String
        /// The TCP port.
        public var port: UInt16

        /// A proxy.
        public init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }
    }

    /// The proxy for `http:` URLs.
    public var http: Server?
    /// The proxy for `https:` URLs.
    public var https: Server?
    /// The URL of the script that selects a proxy for each URL (PAC): `http:` or `https:`.
    public var autoConfigurationURL: String?
    /// Hosts that are reached without a proxy: names, addresses, or `*.` and a domain.
    public var exceptions: [String]
    /// Whether names of one label are reached without a proxy.
    public var excludesSimpleHostnames: Bool

    /// Proxy settings.
    public init(
        http: Server? = nil, https: Server? = nil, autoConfigurationURL: String? = nil, exceptions: [String] = [],
        excludesSimpleHostnames: Bool = false
    ) {
        self.http = http
        self.https = https
        self.autoConfigurationURL = autoConfigurationURL
        self.exceptions = exceptions
        self.excludesSimpleHostnames = excludesSimpleHostnames
    }
}

extension ProxySettings: Codable {
    private enum CodingKeys: String, CodingKey {
        case http, https, autoConfigurationURL, exceptions, excludesSimpleHostnames
    }

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            http: try container.decodeIfPresent(Server.self, forKey: .http),
            https: try container.decodeIfPresent(Server.self, forKey: .https),
            autoConfigurationURL: try container.decodeIfPresent(String.self, forKey: .autoConfigurationURL),
            exceptions: try container.decodeIfPresent([String].self, forKey: .exceptions) ?? [],
            excludesSimpleHostnames: try container.decodeIfPresent(Bool.self, forKey: .excludesSimpleHostnames)
                ?? false)
    }
}
