// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import Provisioning
package import TrustPinning

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Sends provisioning requests over TLS. It verifies each server as the request specifies (`ServerTrust`): by pins, by
/// given authorities, or by the system's authorities.
///
/// Each request uses a separate connection, to the address in the request if there is one. The certificate must always
/// be for the server's name. No byte of the request is sent before the server was verified. Redirections are not
/// followed.
public struct PinnedProvisioningTransport: ProvisioningTransport {
    private let logger: Logger
    private let now: @Sendable () -> Date
    private let exchange: Exchange

    /// Sends a request to a server that the evaluator trusts at the given time, and returns the reply.
    package typealias Exchange =
        @Sendable (ProvisioningRequest, TrustEvaluator, @escaping @Sendable () -> Date)
        async throws(PinnedSessionError) -> ProvisioningReply

    /// Creates a transport.
    /// - Parameter logger: Logs each accepted common name of a certificate.
    public init(logger: Logger = Logger(label: "provisioning")) { self.init(logger: logger, now: { Date() }) }

    /// - Parameter now: The time at which certificates must be valid.
    package init(logger: Logger, now: @escaping @Sendable () -> Date) {
        self.init(logger: logger, now: now) { (request, trust, now) async throws(PinnedSessionError) in
            try await request.reply(trust: trust, now: now)
        }
    }

    /// - Parameter exchange: Sends requests in place of the platform's session, for tests.
    package init(logger: Logger, now: @escaping @Sendable () -> Date, exchange: @escaping Exchange) {
        self.logger = logger
        self.now = now
        self.exchange = exchange
    }

    /// Sends a request, and returns the whole reply, with any status.
    public func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
        let evaluator = try request.server.evaluator(logger)
        do throws(PinnedSessionError) {
            return try await exchange(request, evaluator, now)
        } catch {
            throw ProvisioningTransportError(error, now: now())
        }
    }
}

extension ProvisioningServer {
    /// Makes the evaluator that verifies the server.
    fileprivate func evaluator(_ logger: Logger) throws(ProvisioningTransportError) -> TrustEvaluator {
        switch trust {
        case .system: return TrustEvaluator(policies: .systemTrustOnly, systemTrust: Self.systemTrust())
        case .pins(let pins):
            return TrustEvaluator(policies: try policies(pins), systemTrust: NoSystemTrust())
        case .authorities(let pem, let acceptsCommonName):
            let roots: RootStore
            do throws(PinError) {
                roots = try .certificates(pem: pem, acceptsCommonName: acceptsCommonName)
            } catch {
                throw .unsupported("the authorities of \(name): \(error)")
            }
            // Use the same verifier on all platforms, because Apple's verifier no longer supports common names.
            return TrustEvaluator(
                policies: .systemTrustOnly, systemTrust: RootStoreTrust(roots: roots, rememberedChains: 0),
                observers: acceptsCommonName ? [commonNameObserver(logger)] : [])
        }
    }

    /// Returns policies that use only the leaf: it must have one of the pinned keys, be for the name and for servers,
    /// and be valid now.
    private func policies(_ pins: [ServerKeyPin]) throws(ProvisioningTransportError) -> PolicySet {
        do {
            let pins = try pins.enumerated().map { index, pin in
                try Pin(.spki, PinHash(bytes: pin.bytes), role: index == 0 ? .primary : .backup, scope: .leaf)
            }
            let policy = try PinningPolicy(pins: pins, requiresSystemTrust: false)
            return try PolicySet([HostPolicy(HostPattern(name), policy)], unlisted: .refuse)
        } catch {
            throw .unsupported("the pins of \(name): \(error)")
        }
    }

    private func commonNameObserver(_ logger: Logger) -> TrustEvaluator.Observer {
        { [name] activity in
            guard let evaluation = activity.evaluation, evaluation.decision.isTrusted,
                let leaf = evaluation.presentedChain.first,
                let fields = try? CertificateFields(leaf), fields.alternativeNames == nil
            else { return }
            logger.notice("the certificate of \(name) has only a common name, which is accepted from its authority")
        }
    }
}

/// Trusts no chain, for servers that are verified only by pins.
private struct NoSystemTrust: SystemTrust {
    func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
        .untrusted(SystemTrustFailure(.unknownIssuer, "authorities are not used"))
    }
}

extension ProvisioningTransportError {
    /// 2025-01-01, which is earlier than any correct time. A clock before this time was never set.
    private static let earliestTime = Date(timeIntervalSince1970: 1_735_689_600)

    /// Converts an error of the session into the reason for a missing reply.
    /// - Parameter now: The time of the clock.
    fileprivate init(_ error: PinnedSessionError, now: Date) {
        switch error {
        case .untrusted(_, let verdict):
            let isEarly = verdict.decision?.events.contains { event in
                if case .systemTrustFailed(let failure) = event { failure.code == .notYetValid } else { false }
            }
            self =
                isEarly == true && now < Self.earliestTime
                ? .clockUnset("its time is \(now.formatted(.iso8601)), and the server's certificate is not valid yet")
                : .untrusted(verdict.reason)
        case .responseTooLarge(let limit): self = .tooLong(limit: limit)
        case .invalidRequest(let reason), .bodyFailed(let reason): self = .unsupported(reason)
        case .unreachable, .handshakeFailed, .timedOut, .connectionLost, .invalidResponse, .redirectRefused,
            .tooManyRedirects, .cancelled, .sessionClosed:
            self = .unreachable(error.description)
        }
    }
}
