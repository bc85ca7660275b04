// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// Foundation's additions to Security's types on Apple's platforms, with the signatures of
// https://developer.apple.com/documentation/foundation/nsurlauthenticationmethodservertrust
// https://developer.apple.com/documentation/foundation/nsurlauthenticationmethodclientcertificate
// https://developer.apple.com/documentation/foundation/urlprotectionspace/servertrust
// https://developer.apple.com/documentation/foundation/urlcredential/init(trust:)
// https://developer.apple.com/documentation/foundation/urlcredential/init(identity:certificates:persistence:)
// https://developer.apple.com/documentation/foundation/urlsessionconfiguration/tlsminimumsupportedprotocolversion
// https://developer.apple.com/documentation/security/tls_protocol_version_t
//
// Challenges, credentials, delegates and sessions themselves are those of Foundation on Linux.

public let NSURLAuthenticationMethodServerTrust = "NSURLAuthenticationMethodServerTrust"
public let NSURLAuthenticationMethodClientCertificate = "NSURLAuthenticationMethodClientCertificate"

public enum tls_protocol_version_t: UInt16, Sendable {
    case TLSv12 = 0x0303
    case TLSv13 = 0x0304
}

extension URLSessionConfiguration {
    /// It is not kept: there is no TLS here.
    public var tlsMinimumSupportedProtocolVersion: tls_protocol_version_t {
        get { .TLSv12 }
        set { _ = newValue }
    }
}

/// A space with a trust, which Foundation on Linux has no place for.
final class StandInProtectionSpace: URLProtectionSpace, @unchecked Sendable {
    let trust: SecTrust?

    init(host: String, port: Int, method: String, trust: SecTrust?) {
        self.trust = trust
        super.init(host: host, port: port, protocol: "https", realm: nil, authenticationMethod: method)
    }

    required init?(coder: NSCoder) { nil }
}

extension URLProtectionSpace {
    public var serverTrust: SecTrust? { (self as? StandInProtectionSpace)?.trust }
}

/// The sources of credentials, by their `user`.
private final class CredentialTable: @unchecked Sendable {
    private let lock = NSLock()
    private var identities: [String: (SecIdentity, [Any])] = [:]

    static let shared = CredentialTable()

    subscript(name: String) -> (SecIdentity, [Any])? {
        get { lock.withLock { identities[name] } }
        set { lock.withLock { identities[name] = newValue } }
    }
}

extension URLCredential {
    public convenience init(trust: SecTrust) {
        self.init(user: "trust", password: "", persistence: .forSession)
    }

    public convenience init(identity: SecIdentity, certificates: [Any]?, persistence: URLCredential.Persistence) {
        let name = "identity \(UUID().uuidString)"
        CredentialTable.shared[name] = (identity, certificates ?? [])
        self.init(user: name, password: "", persistence: persistence)
    }

    /// Whether this accepts a server.
    public var standInAcceptsServer: Bool { user == "trust" }

    /// The certificates that would be sent, in DER, the client's own first; `nil` if this is not an identity.
    public var standInShownChain: [[UInt8]]? {
        user.flatMap { CredentialTable.shared[$0] }.map { identity, others in
            [identity.certificate.bytes] + others.compactMap { ($0 as? SecCertificate)?.bytes }
        }
    }
}
