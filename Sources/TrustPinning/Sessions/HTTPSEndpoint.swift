// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// The destination of a connection.
package struct HTTPSEndpoint: Hashable, Sendable {
    package var host: HostName
    package var port: Int

    /// Reads the host and port of an `https` URL.
    package init(_ url: URL) throws(PinnedSessionError) {
        guard url.scheme?.lowercased() == "https" else {
            throw .invalidRequest("the URL must have the scheme https, not '\(url.scheme ?? "no scheme")'")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .invalidRequest("the URL must not contain a user name or a password; use a header field")
        }
        guard let text = url.host(percentEncoded: false), !text.isEmpty else {
            throw .invalidRequest("the URL has no host")
        }
        do {
            host = try HostName(text)
        } catch {
            throw .invalidRequest("the URL's host is not valid: \(error)")
        }
        port = url.port ?? 443
        guard (1...65_535).contains(port) else {
            throw .invalidRequest("the port must be between 1 and 65535, not \(port)")
        }
    }

    /// Reads `host:port` or `[address]:port`; the default port is 443.
    package init?(authority: String) {
        guard let url = URL(string: "https://" + authority), let endpoint = try? HTTPSEndpoint(url) else { return nil }
        self = endpoint
    }

    /// The value of the header field `Host`.
    package var authority: String {
        let name = host.description.contains(":") ? "[\(host)]" : host.description
        return port == 443 ? name : "\(name):\(port)"
    }
}
