// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// An event that a ``TrustEvaluator`` reports to its observers and streams.
public enum TrustActivity: Sendable {
    /// A server was evaluated.
    case judged(TrustEvaluation)
    /// A client identity was used, is missing, expires soon, or could not be loaded.
    case identity(ClientIdentityEvent, environment: TrustEnvironment)

    /// The evaluation, or `nil` for an event of a client identity.
    public var evaluation: TrustEvaluation? {
        if case .judged(let evaluation) = self { evaluation } else { nil }
    }

    /// The environment that was in use.
    public var environment: TrustEnvironment {
        switch self {
        case .judged(let evaluation): evaluation.environment
        case .identity(_, let environment): environment
        }
    }

    /// The trust events, in order. For client identities: `mtlsIdentityUsed` or `mtlsIdentityMissing`, or none.
    public var events: [TrustEvent] {
        switch self {
        case .judged(let evaluation): evaluation.decision.events
        case .identity(let event, _): event.trustEvent.map { [$0] } ?? []
        }
    }
}

/// The record of one evaluation, for observers.
public struct TrustEvaluation: Sendable {
    /// The decision.
    public let decision: TrustDecision
    /// The host, as the caller passed it.
    public let host: String
    /// The port, as the caller passed it.
    public let port: Int
    /// The environment in use.
    public let environment: TrustEnvironment
    /// The pattern whose policy decided, or `nil` if the host is not listed.
    public var pattern: HostPattern? { rule.pattern }
    /// The policy that decided, or `nil` if the host is not pinned.
    public var policy: PinningPolicy? {
        guard case .pinned(let policy, _) = rule else { return nil }
        return policy
    }
    /// The certificates that the server sent. For a trust object on Apple's platforms, the chain that the platform
    /// built.
    public let presentedChain: [[UInt8]]
    /// The date at which the chain had to be valid.
    public let date: Date
    /// The duration of the evaluation.
    public let duration: Duration

    let rule: PolicySet.Rule

    init(
        decision: TrustDecision, host: String, port: Int, rule: PolicySet.Rule, environment: TrustEnvironment,
        presentedChain: [[UInt8]], date: Date, duration: Duration
    ) {
        self.decision = decision
        self.host = host
        self.port = port
        self.rule = rule
        self.environment = environment
        self.presentedChain = presentedChain
        self.date = date
        self.duration = duration
    }
}
