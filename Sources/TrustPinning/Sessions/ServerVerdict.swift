// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Whether a connection may go on, and why.
public struct ServerVerdict: Sendable, Equatable {
    /// Whether the server is the one it should be.
    public var isTrusted: Bool
    /// Why, in one line for people. Where no pin matches, it names the keys that the server showed. Holds nothing of the
    /// request.
    public var reason: String
    /// The decision that it comes from, where policies were asked.
    public var decision: TrustDecision?

    /// A verdict.
    public init(isTrusted: Bool, reason: String) {
        self.isTrusted = isTrusted
        self.reason = reason
    }

    /// The verdict of a decision.
    public init(_ decision: TrustDecision) {
        isTrusted = decision.isTrusted
        self.decision = decision
        reason = decision.description
    }
}
