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

/// TLS for clients in which the app's policies say which servers are trusted, for any NIO bootstrap.
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
/// NIOSSL's own checks are replaced as a whole: path, name, dates and pins are judged by the evaluator. What is written to
/// the channel before the verdict stays in memory, and is dropped when the verdict is no.
public struct PinnedTLS: Sendable {
    /// What TLS itself may use.
    public struct Options: Sendable {
        /// The oldest version of the protocol that is spoken; TLS 1.2 by default, and never less.
        public var minimumVersion: TLSVersion = .tlsv12
        /// The protocols that are offered by ALPN, the preferred first; none by default.
        public var applicationProtocols: [String] = []

        /// The defaults.
        public init() {}
    }

    private let verifier: ServerVerifier
    private let trust: TrustEvaluator?
    private let identities: ClientIdentities?
    private let now: @Sendable () -> Date
    private let configuration: TLSConfiguration
    /// For connections that have no identity to show.
    private let context: Result<NIOSSLContext, PinnedTLSError>

    /// TLS that trusts whom `trust` trusts, and shows the identities of `identities` to the hosts they are for.
    /// - Throws: what the TLS library has against the options.
    public init(
        trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil
    ) throws(PinnedTLSError) {
        try self.init(trust: trust, options: options, identities: identities, now: { Date() })
    }

    /// - Parameter now: the time that certificates and pins have to be valid at.
    package init(
        trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil,
        now: @escaping @Sendable () -> Date
    ) throws(PinnedTLSError) {
        self.init(checkedLater: trust, options: options, identities: identities, now: now)
        _ = try context.get()
    }

    /// The same, where each connection says what the TLS library has against the options. It has nothing against the
    /// defaults.
    package init(
        checkedLater trust: TrustEvaluator, options: Options = Options(), identities: ClientIdentities? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.init(judgedBy: trust, options: options, identities: identities, now: now) { chain in
            ServerVerdict(
                await trust.evaluate(chain: chain.certificates, host: chain.host, port: chain.port, at: now()))
        }
    }

    /// TLS that trusts whom `verifier` trusts, which alone is then responsible for path, name, dates and pins.
    /// - Throws: what the TLS library has against the options.
    public init(
        options: Options = Options(), identities: ClientIdentities? = nil, verifier: @escaping ServerVerifier
    ) throws(PinnedTLSError) {
        self.init(judgedBy: nil, options: options, identities: identities, now: { Date() }, verifier: verifier)
        _ = try context.get()
    }

    /// - Parameter trust: what `verifier` asks, if it asks policies.
    private init(
        judgedBy trust: TrustEvaluator?, options: Options, identities: ClientIdentities?,
        now: @escaping @Sendable () -> Date, verifier: @escaping ServerVerifier
    ) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        switch options.minimumVersion {
        case .tlsv13: configuration.minimumTLSVersion = .tlsv13
        default: configuration.minimumTLSVersion = .tlsv12
        }
        configuration.applicationProtocols = options.applicationProtocols
        // The callback is what verifies. It is asked while verification is on; with names, NIOSSL would look for the host
        // once more after the handshake, by rules of its own.
        configuration.certificateVerification = .noHostnameVerification
        // NIOSSL verifies nothing, so that it needs no roots: reading the system's takes milliseconds and megabytes.
        configuration.trustRoots = .certificates([])
        configuration.renegotiationSupport = .none
        // The library's defaults leave out P-521 and Ed25519. Nothing with SHA-1 is in it.
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

    /// A handler for the pipeline of one connection to `host`: a name or an IP address in text.
    /// - Parameters:
    ///   - host: the name or address.
    ///   - port: the port as the verifier is told it.
    /// - Throws: an error when `host` is neither a name that can be sent nor an address.
    public func handler(for host: String, port: Int = 443) throws(PinnedTLSError) -> NIOSSLClientHandler {
        try handler(for: host, port: port, record: HandshakeRecord())
    }

    /// The verifier as NIOSSL and what is built on it take it (`customVerificationCallback`), for those who make their
    /// TLS contexts themselves. The context must not have `certificateVerification` set to `.none`: NIOSSL would not ask.
    public func verificationCallback(for host: String, port: Int = 443) -> NIOSSLCustomVerificationCallback {
        verificationCallback(for: PinnedTLS.normalized(host), port: port, record: HandshakeRecord())
    }

    /// A provider of TLS for a `NIOClientTCPBootstrap`. It shows no client identities.
    /// - Throws: an error when `host` is neither a name that can be sent nor an address.
    public func provider<Bootstrap: NIOClientTCPBootstrapProtocol>(
        for host: String, port: Int = 443, bootstrap: Bootstrap.Type = Bootstrap.self
    ) throws(PinnedTLSError) -> NIOSSLClientTLSProvider<Bootstrap> {
        let context = try context.get()
        do {
            let name = try HostName(host)
            // One record for all connections of the provider would mix up their verdicts.
            return try NIOSSLClientTLSProvider(
                context: context, serverHostname: name.isAddress ? nil : name.description,
                customVerificationCallback: verificationCallback(for: name.description, port: port, record: nil))
        } catch {
            throw .unusableHost(host)
        }
    }

    /// What connections to `endpoint` have in common at this time.
    func key(for endpoint: Endpoint) -> ConnectionKey {
        let configuration = trust?.configuration
        let rule = configuration?.policies.rule(for: endpoint.host)
        let revision = identities?.revision(for: endpoint.host, in: configuration?.selected)
        return ConnectionKey(
            endpoint: endpoint, identityRevision: revision ?? 0, rule: rule,
            hasExpired: rule.map { trust?.hasExpired($0, at: now()) ?? false } ?? false)
    }

    /// The policies that say who is trusted, where it is them.
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

    /// A context that asks for an identity when the server does; nil where there are no identities at all.
    private func context(for host: HostName, record: HandshakeRecord) throws -> NIOSSLContext? {
        guard let identities else { return nil }
        var configuration = configuration
        configuration.sslContextCallback = { [trust] _, promise in
            // Called after the server was verified, and only when it asked. Not before a verdict of trust may an
            // identity be looked up, let alone shown.
            promise.completeWithTask {
                var override = NIOSSLContextConfigurationOverride()
                guard record.verdict?.isTrusted == true,
                    let identity = await identities.identity(askedBy: host, for: trust)
                else { return override }
                record.setIdentity(identity)
                override.certificateChain = identity.certificateSources
                override.privateKey = identity.privateKeySource
                return override
            }
        }
        return try NIOSSLContext(configuration: configuration)
    }

    /// - Parameter record: takes the verdict; nil for one in each handshake.
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

/// Why no TLS can be made.
public enum PinnedTLSError: Error, Equatable, CustomStringConvertible {
    /// The TLS library refuses the options, for the reason given.
    case unusableOptions(String)
    /// The host is empty, too long, or has characters that no name has.
    case unusableHost(String)

    /// The error in one line.
    public var description: String {
        switch self {
        case .unusableOptions(let reason): "TLS cannot be set up with these options: \(reason)"
        case .unusableHost(let host): "'\(host)' is neither a host name nor an IP address that TLS can ask for"
        }
    }
}

/// What one handshake came to, kept for whoever has to explain its failure.
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
