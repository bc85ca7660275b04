// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
public import NIOCore
public import NIOSSL
public import TrustPinning

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Client TLS that verifies servers by the app's policies, for any NIO bootstrap.
///
///     let tls = try PinnedTLS(trust: TrustEvaluator(policies: policies, systemTrust: systemTrust))
///     let channel = try await ClientBootstrap(group: group)
///         .channelInitializer { channel in
///             channel.eventLoop.makeCompletedFuture {
///                 try channel.pipeline.syncOperations.addHandler(tls.handler(for: "api.example.com"))
///             }
///         }
///         .connect(host: "api.example.com", port: 443).get()
///
/// The evaluator replaces all checks of NIOSSL: path, name, dates and pins. Data that is written to the channel before
/// the verdict stays in memory, and is dropped if the server is refused.
public struct PinnedTLS: Sendable {
    /// The options of the TLS protocol.
    public struct Options: Sendable {
        /// The minimum version of the protocol; TLS 1.2 by default, and never lower.
        public var minimumVersion: TLSVersion = .tlsv12
        /// The protocols to offer by ALPN, the preferred one first; empty by default.
        public var applicationProtocols: [String] = []

        /// Creates the default options.
        public init() {}
    }

    private let verifier: ServerVerifier
    private let trust: TrustEvaluator?
    private let identities: ClientIdentities?
    private let now: @Sendable () -> Date
    private let configuration: TLSConfiguration
    /// The context of connections without client identities.
    private let context: Result<NIOSSLContext, PinnedTLSError>

    /// Creates TLS that evaluates servers with `trust`, and sends client identities of `identities` to their hosts.
    /// - Throws: ``PinnedTLSError`` if the TLS library refuses the options.
    public init(
        trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil
    ) throws(PinnedTLSError) {
        try self.init(trust: trust, options: options, identities: identities, now: { Date() })
    }

    /// - Parameter now: The time at which certificates and pins must be valid.
    package init(
        trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil,
        now: @escaping @Sendable () -> Date
    ) throws(PinnedTLSError) {
        self.init(checkedLater: trust, options: options, identities: identities, now: now)
        _ = try context.get()
    }

    /// Creates TLS without checking the options: each connection fails if the TLS library refuses them. The default
    /// options are valid.
    package init(
        checkedLater trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.init(evaluatedBy: trust, options: options, identities: identities, now: now) { chain in
            ServerVerdict(
                await trust.evaluate(chain: chain.certificates, host: chain.host, port: chain.port, at: now()))
        }
    }

    /// Creates TLS with a custom verifier, which is alone responsible for path, name, dates and pins.
    /// - Throws: ``PinnedTLSError`` if the TLS library refuses the options.
    public init(
        options: Options = Options(), identities: ClientIdentities? = nil, verifier: @escaping ServerVerifier
    ) throws(PinnedTLSError) {
        self.init(evaluatedBy: nil, options: options, identities: identities, now: { Date() }, verifier: verifier)
        _ = try context.get()
    }

    /// - Parameter trust: The evaluator that `verifier` uses, if it uses one.
    private init(
        evaluatedBy trust: TrustEvaluator?, options: Options, identities: ClientIdentities?,
        now: @escaping @Sendable () -> Date, verifier: @escaping ServerVerifier
    ) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        switch options.minimumVersion {
        case .tlsv13: configuration.minimumTLSVersion = .tlsv13
        default: configuration.minimumTLSVersion = .tlsv12
        }
        configuration.applicationProtocols = options.applicationProtocols
        // The callback verifies servers. NIOSSL calls it only if verification is on. With host name verification,
        // NIOSSL would check the host again after the handshake, by its own rules, so use `.noHostnameVerification`.
        configuration.certificateVerification = .noHostnameVerification
        // NIOSSL itself verifies nothing, so give it no roots: reading those of the system takes milliseconds and
        // megabytes.
        configuration.trustRoots = .certificates([])
        configuration.renegotiationSupport = .none
        // The library's defaults lack P-521 and Ed25519. This list contains no algorithm with SHA-1.
        configuration.verifySignatureAlgorithms = PinnedTLS.signatureAlgorithms
        configuration.signingSignatureAlgorithms = PinnedTLS.signatureAlgorithms
        configuration.shutdownTimeout = .seconds(1)
        context = Self.context(configuration)
        self.configuration = configuration
        self.verifier = verifier
        self.trust = trust
        self.identities = identities
        self.now = now
    }

    private static func context(_ configuration: TLSConfiguration) -> Result<NIOSSLContext, PinnedTLSError> {
        do {
            return .success(try NIOSSLContext(configuration: configuration))
        } catch {
            return .failure(.unusableOptions(String(describing: error)))
        }
    }

    private static let signatureAlgorithms: [SignatureAlgorithm] = [
        .ecdsaSecp256R1Sha256, .rsaPssRsaeSha256, .rsaPkcs1Sha256, .ecdsaSecp384R1Sha384, .rsaPssRsaeSha384,
        .rsaPkcs1Sha384, .ed25519, .ecdsaSecp521R1Sha512, .rsaPssRsaeSha512, .rsaPkcs1Sha512,
    ]

    /// Creates the handler for the pipeline of one connection to `host`.
    /// - Parameters:
    ///   - host: A name, or an IP address in text form.
    ///   - port: The port, passed to the verifier.
    /// - Throws: ``PinnedTLSError`` if `host` is neither a name that TLS can send nor an address.
    public func handler(for host: String, port: Int = 443) throws(PinnedTLSError) -> NIOSSLClientHandler {
        try handler(for: host, port: port, record: HandshakeRecord())
    }

    /// Returns the verifier as a callback for NIOSSL and for libraries that use NIOSSL (`customVerificationCallback`),
    /// for code that creates its own TLS contexts. Their `certificateVerification` must not be `.none`, because NIOSSL
    /// would then not call the verifier.
    public func verificationCallback(for host: String, port: Int = 443) -> NIOSSLCustomVerificationCallback {
        verificationCallback(for: PinnedTLS.normalized(host), port: port, record: HandshakeRecord())
    }

    /// Creates a TLS provider for a `NIOClientTCPBootstrap`. It sends no client identities.
    /// - Throws: ``PinnedTLSError`` if `host` is neither a name that TLS can send nor an address.
    public func provider<Bootstrap: NIOClientTCPBootstrapProtocol>(
        for host: String, port: Int = 443, bootstrap: Bootstrap.Type = Bootstrap.self
    ) throws(PinnedTLSError) -> NIOSSLClientTLSProvider<Bootstrap> {
        let context = try context.get()
        do {
            let name = try HostName(host)
            // Use no shared record: it would mix the verdicts of the provider's connections.
            return try NIOSSLClientTLSProvider(
                context: context, serverHostname: name.isAddress ? nil : name.description,
                customVerificationCallback: verificationCallback(for: name.description, port: port, record: nil))
        } catch {
            throw .unusableHost(host)
        }
    }

    /// Returns the key that a connection to `endpoint` would have if it were opened now.
    func key(for endpoint: Endpoint) -> ConnectionKey {
        let configuration = trust?.configuration
        let rule = configuration?.policies.rule(for: endpoint.host)
        let revision = identities?.revision(for: endpoint.host, in: configuration?.selected)
        return ConnectionKey(
            endpoint: endpoint, identityRevision: revision ?? 0, rule: rule,
            hasExpired: rule.map { trust?.hasExpired($0, at: now()) ?? false } ?? false)
    }

    /// The policies that verify servers, or `nil` with a custom verifier.
    var policies: PolicySet? { trust?.policies }

    private static func normalized(_ host: String) -> String { (try? HostName(host))?.description ?? host }

    func handler(for host: String, port: Int, record: HandshakeRecord) throws(PinnedTLSError) -> NIOSSLClientHandler {
        let shared = try context.get()
        do {
            let name = try HostName(host)
            return try NIOSSLClientHandler(
                context: context(for: name, record: record) ?? shared,
                // Addresses are not sent as names (RFC 6066, section 3).
                serverHostname: name.isAddress ? nil : name.description,
                customVerificationCallback: verificationCallback(for: name.description, port: port, record: record))
        } catch {
            throw .unusableHost(host)
        }
    }

    /// Creates a context that looks up an identity when the server requests one, or returns `nil` without identities.
    private func context(for host: HostName, record: HandshakeRecord) throws -> NIOSSLContext? {
        guard let identities else { return nil }
        var configuration = configuration
        configuration.sslContextCallback = { [trust] _, promise in
            // NIOSSL calls this after the server was verified, and only if the server requests a certificate. If the
            // server is not trusted, do not even look up an identity.
            promise.completeWithTask {
                var override = NIOSSLContextConfigurationOverride()
                guard record.verdict?.isTrusted == true,
                    let identity = await identities.identity(requestedBy: host, for: trust)
                else { return override }
                record.setIdentity(identity)
                override.certificateChain = identity.certificateSources
                override.privateKey = identity.privateKeySource
                return override
            }
        }
        return try NIOSSLContext(configuration: configuration)
    }

    /// - Parameter record: Stores the verdict; `nil` creates a record for each handshake.
    private func verificationCallback(
        for host: String, port: Int, record: HandshakeRecord?
    ) -> @Sendable ([NIOSSLCertificate], EventLoopPromise<NIOSSLVerificationResult>) -> Void {
        { [verifier] certificates, promise in
            PinnedTLS.verify(certificates, host, port, record ?? HandshakeRecord(), verifier, promise)
        }
    }

    private static func verify(
        _ certificates: [NIOSSLCertificate], _ host: String, _ port: Int, _ record: HandshakeRecord,
        _ verifier: @escaping ServerVerifier, _ promise: EventLoopPromise<NIOSSLVerificationResult>
    ) {
        promise.completeWithTask {
            var chain: [[UInt8]] = []
            for certificate in certificates {
                guard let der = try? certificate.toDERBytes() else {
                    record.setVerdict(ServerVerdict(isTrusted: false, reason: "a certificate cannot be read"))
                    return .failed
                }
                chain.append(der)
            }
            let verdict = await verifier(PresentedChain(certificates: chain, host: host, port: port))
            record.setVerdict(verdict)
            return verdict.isTrusted ? .certificateVerified : .failed
        }
    }
}

/// The error of TLS options or hosts that cannot be used.
public enum PinnedTLSError: Error, Equatable, CustomStringConvertible {
    /// The TLS library refuses the options, for the reason given.
    case unusableOptions(String)
    /// The host is empty, too long, or contains characters that are not valid in names.
    case unusableHost(String)

    /// The error in one line.
    public var description: String {
        switch self {
        case .unusableOptions(let reason): "TLS cannot be set up with these options: \(reason)"
        case .unusableHost(let host): "'\(host)' is neither a host name nor an IP address that TLS can use"
        }
    }
}

/// The verdict and identity of a handshake, kept to explain a failure.
final class HandshakeRecord: Sendable {
    private struct Content {
        var verdict: ServerVerdict?
        var identity: ClientIdentity?
    }

    private let content = NIOLockedValueBox(Content())

    var verdict: ServerVerdict? { content.withLockedValue { $0.verdict } }
    var identity: ClientIdentity? { content.withLockedValue { $0.identity } }

    func setVerdict(_ verdict: ServerVerdict) { content.withLockedValue { $0.verdict = verdict } }
    func setIdentity(_ identity: ClientIdentity) { content.withLockedValue { $0.identity = identity } }
}

/// The certificates that a server sent in its handshake, before they were verified.
public struct PresentedChain: Sendable {
    /// The certificates in DER, the server's own first, in the order in which they arrived.
    public var certificates: [[UInt8]]
    /// The requested host: a name in lower case without a final dot, or an IP address.
    public var host: String
    /// The TCP port of the connection.
    public var port: Int

    /// Creates a chain.
    public init(certificates: [[UInt8]], host: String, port: Int) {
        self.certificates = certificates
        self.host = host
        self.port = port
    }
}

/// Verifies the chain of a server. It is responsible for all checks that TLS libraries otherwise make: the path to a
/// root, the host's name, the dates and the pins.
public typealias ServerVerifier = @Sendable (PresentedChain) async -> ServerVerdict
