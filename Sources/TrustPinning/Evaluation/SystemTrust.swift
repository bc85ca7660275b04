// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Vouches for chains: the platform, or roots that were given.
///
/// An implementation checks everything that makes a server's certificate good but for pins: signatures up to a root,
/// validity at a date, constraints, the host's name, and the use for servers.
public protocol SystemTrust: Sendable {
    /// Verifies what a server sent.
    func verify(_ request: SystemTrustRequest) async -> SystemTrustResult
}

/// A question about a chain.
public struct SystemTrustRequest: Sendable {
    /// What the server sent, in DER: its own certificate first, then others in any order. Two or more bytes each, ten
    /// certificates at most.
    public let chain: [[UInt8]]
    /// The host that is meant.
    public let host: HostName
    /// The moment at which the chain has to be valid.
    public let date: Date
    /// Whether a verified chain is one that the caller would rather have: pins match it. Where several paths lead to
    /// roots, as with cross-signed authorities, one that is preferred is to be returned if there is any; an
    /// implementation that finds one path only need not ask.
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

/// The answer about a chain.
public enum SystemTrustResult: Sendable, Hashable {
    /// The chain is trusted. This is the chain that was verified, in DER: from the server's certificate to the root that
    /// vouches for it, both included, whatever else the server sent.
    case trusted(chain: [[UInt8]])
    /// It is not.
    case untrusted(SystemTrustFailure)
}

/// Why a chain is not trusted.
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
        /// A certificate is not for servers, or an issuer's not for issuing.
        case wrongUsage
        /// A path leads to a root, but breaks a rule of RFC 5280.
        case constraint
        /// A certificate cannot be read, or has a key that is not supported.
        case unreadable
        /// The roots cannot be loaded.
        case rootsUnavailable
        /// Anything else that the platform says.
        case other
    }

    /// The kind of reason.
    public let code: Code
    /// The reason, for people. It names no host.
    public let reason: String

    /// A failure.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
