// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import TrustPinning

/// What a server presented in its handshake, before anything of it was believed.
public struct PresentedChain: Sendable {
    /// The certificates in DER, the server's own first, in the order in which they came.
    public var certificates: [[UInt8]]
    /// The host that was asked for: a name in lower case without a dot at its end, or an IP address.
    public var host: String
    /// The TCP port that was connected to.
    public var port: Int

    /// A chain as it was presented.
    public init(certificates: [[UInt8]], host: String, port: Int) {
        self.certificates = certificates
        self.host = host
        self.port = port
    }
}

/// Whether a connection may go on, and why.
public struct ServerVerdict: Sendable, Equatable {
    /// Whether the server is the one it should be.
    public var isTrusted: Bool
    /// Why, in one line for people who read logs. Holds nothing of the request.
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
        reason = decision.reason.rawValue
        for case .systemTrustFailed(let failure) in decision.events { reason += ": \(failure)" }
        for case .systemTrustFailedPermissive(let failure) in decision.events { reason += ": \(failure)" }
        for case .chainRefused(let why) in decision.events { reason += ": \(why)" }
    }
}

/// Judges the chain of a server. Everything that TLS libraries check otherwise is up to it: the path to a root, the
/// host's name, the dates, the pins.
public typealias ServerVerifier = @Sendable (PresentedChain) async -> ServerVerdict
