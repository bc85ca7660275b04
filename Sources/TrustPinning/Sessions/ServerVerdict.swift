// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The verdict on a server, and its reason.
public struct ServerVerdict: Sendable, Equatable {
    /// Whether the connection may continue.
    public var isTrusted: Bool
    /// The reason in one readable line. If no pin matches, it lists the server's keys. It contains no data of the
    /// request.
    public var reason: String
    /// The decision of the policies, or `nil` if no policy was evaluated.
    public var decision: TrustDecision?

    /// Creates a verdict.
    public init(isTrusted: Bool, reason: String) {
        self.isTrusted = isTrusted
        self.reason = reason
    }

    /// Creates the verdict for a decision.
    public init(_ decision: TrustDecision) {
        isTrusted = decision.isTrusted
        self.decision = decision
        reason = decision.description
    }
}
