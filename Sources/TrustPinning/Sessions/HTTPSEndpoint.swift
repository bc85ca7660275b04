// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Where a connection goes.
package struct HTTPSEndpoint: Hashable, Sendable {
    package var host: HostName
    package var port: Int

    /// The host and port of an `https` URL.
    package init(_ url: URL) throws(PinnedSessionError) {
        guard url.scheme?.lowercased() == "https" else {
            throw .invalidRequest("only https is spoken, and the URL has '\(url.scheme ?? "no scheme")'")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .invalidRequest("the URL has a user name or a password in it; use a header field")
        }
        guard let text = url.host(percentEncoded: false), !text.isEmpty else {
            throw .invalidRequest("the URL has no host")
        }
        do {
            host = try HostName(text)
        } catch {
            throw .invalidRequest("the host cannot be asked for: \(error)")
        }
        port = url.port ?? 443
        guard (1...65_535).contains(port) else { throw .invalidRequest("\(port) is no port") }
    }

    /// `host:port` or `[address]:port`; 443 where there is no port.
    package init?(authority: String) {
        guard let url = URL(string: "https://" + authority), let endpoint = try? HTTPSEndpoint(url) else { return nil }
        self = endpoint
    }

    /// As in the field `Host`.
    package var authority: String {
        let name = host.description.contains(":") ? "[\(host)]" : host.description
        return port == 443 ? name : "\(name):\(port)"
    }
}
