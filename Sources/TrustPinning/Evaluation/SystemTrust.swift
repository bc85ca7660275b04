// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Verifies certificate chains against the platform's roots or given roots.
///
/// An implementation checks everything except pins: signatures up to a root, validity at a date, constraints, the
/// host's name, and whether the certificate is for servers.
public protocol SystemTrust: Sendable {
    /// Verifies the chain that a server sent.
    func verify(_ request: SystemTrustRequest) async -> SystemTrustResult
}

/// A chain to verify, with its host and date.
public struct SystemTrustRequest: Sendable {
    /// The certificates that the server sent, in DER: its own certificate first, then others in any order. At most ten
    /// certificates of at least two bytes each.
    public let chain: [[UInt8]]
    /// The host that the client wants to reach.
    public let host: HostName
    /// The time at which the chain must be valid.
    public let date: Date
    /// Returns whether the caller prefers this verified chain, because a pin matches it. If several paths lead to
    /// roots, as with cross-signed authorities, the implementation must return a preferred path if there is one. An
    /// implementation that finds only one path need not call this.
    public let isPreferred: @Sendable ([[UInt8]]) -> Bool

    package init(
        chain: [[UInt8]], host: HostName, date: Date,
        isPreferred: @escaping @Sendable ([[UInt8]]) -> Bool = { _ in true }
    ) {
        self.chain = chain
        self.host = host
        self.date = date
        self.isPreferred = isPreferred
    }
}

/// The result of a chain verification.
public enum SystemTrustResult: Sendable, Hashable {
    /// The chain is trusted. `chain` is the verified path in DER, from the server's certificate to the root, both
    /// included, without the other certificates that the server sent.
    case trusted(chain: [[UInt8]])
    /// The chain is not trusted.
    case untrusted(SystemTrustFailure)
}

/// The reason why a chain is not trusted.
public struct SystemTrustFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of reasons.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        /// No path leads from the leaf to a root.
        case unknownIssuer
        /// A certificate has expired.
        case expired
        /// A certificate is not valid yet.
        case notYetValid
        /// The leaf is not for the host.
        case wrongName
        /// The leaf may not be used for servers, or an issuer may not issue certificates.
        case wrongUsage
        /// A path leads to a root, but breaks a rule of RFC 5280.
        case constraint
        /// A certificate cannot be read, or has a key that is not supported.
        case unreadable
        /// The roots cannot be loaded.
        case rootsUnavailable
        /// Another reason that the platform reports.
        case other
    }

    /// The kind of reason.
    public let code: Code
    /// The readable reason, without host names.
    public let reason: String

    /// Creates a failure.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
