// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// What observers of a ``TrustEvaluator`` hear, and its streams give.
public enum TrustActivity: Sendable {
    /// A server was judged.
    case judged(TrustEvaluation)
    /// This became of a client identity, in this environment.
    case identity(ClientIdentityEvent, environment: TrustEnvironment)

    /// The evaluation, if it is one.
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

    /// The events that it is made of, in order. Of identities, that one was shown, or that none was.
    public var events: [TrustEvent] {
        switch self {
        case .judged(let evaluation): evaluation.decision.events
        case .identity(let event, _): event.trustEvent.map { [$0] } ?? []
        }
    }
}

/// One evaluation, as observers see it.
public struct TrustEvaluation: Sendable {
    /// What was decided.
    public let decision: TrustDecision
    /// The host as it was given.
    public let host: String
    /// The port as it was given.
    public let port: Int
    /// The environment in use.
    public let environment: TrustEnvironment
    /// The pattern whose policy decided; nil for unlisted hosts.
    public var pattern: HostPattern? { rule.pattern }
    /// The policy that decided; nil if the host is not pinned.
    public var policy: PinningPolicy? {
        guard case .pinned(let policy, _) = rule else { return nil }
        return policy
    }
    /// What the server sent; of a trust object on Apple's platforms, the chain that the platform has made of that.
    public let presentedChain: [[UInt8]]
    /// The date at which the chain was judged.
    public let date: Date
    /// How long it took.
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
